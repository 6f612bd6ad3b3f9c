"""How a client or a worker reaches a scheduler: beyond this machine only by TLS.

Dask's messages run code. Who can speak to a scheduler can do what its workers can, and who listens
to one reads the rows' results (https://distributed.dask.org/en/stable/tls.html).
"""

import ipaddress
import socket
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Security

from headrace.schemas.errors import JobError
from headrace.schemas.transport import Transport


def check_transport(address: str, transport: Transport) -> None:
    """Check that a scheduler may be spoken to in this way.

    Raises:
        JobError: it may not: it is beyond this machine and without TLS, or a file is missing.
    """
    files = asdict(transport)
    del files["insecure"]
    given = {name: path for name, path in files.items() if path is not None}
    for name, path in given.items():
        if not Path(path).is_file():
            msg = f"--tls-{name}: expected a PEM file, got {path!r}, which is not there"
            raise JobError(msg)
    scheme = urlsplit(address).scheme
    if given and len(given) < len(files):
        missing = ", ".join(f"--tls-{name}" for name in files if name not in given)
        msg = f"expected --tls-ca, --tls-cert and --tls-key together, got no {missing}"
        raise JobError(msg)
    if scheme == "tls" and not given:
        msg = f"expected --tls-ca, --tls-cert and --tls-key for the scheduler {address}, got none"
        raise JobError(msg)
    if given and scheme != "tls":
        msg = f"expected a scheduler's address as tls://HOST:PORT beside --tls-ca, got {address!r}"
        raise JobError(msg)
    if scheme == "tcp" and not transport.insecure and not _is_here(address):
        msg = (
            f"expected TLS for a scheduler beyond this machine, got {address}. Whoever reaches it "
            "may run code on its workers: start it with --tls-ca-file, --tls-cert and --tls-key, "
            "and give tls://… with --tls-ca, --tls-cert and --tls-key here. In a network that you "
            "trust, say --insecure."
        )
        raise JobError(msg)


def security_settings(transport: Transport) -> dict[str, object] | None:
    """Give what makes Dask's `Security`; None without TLS."""
    if transport.ca is None:
        return None
    pair = {"cert": transport.cert, "key": transport.key}
    roles = {
        f"tls_{role}_{name}": path for role in ("client", "worker") for name, path in pair.items()
    }
    return {"tls_ca_file": transport.ca, "require_encryption": True, **roles}


def security_of(transport: Transport) -> Security | None:
    """Make Dask's `Security`; None without TLS."""
    settings = security_settings(transport)
    return None if settings is None else Security(**settings)


def _is_here(address: str) -> bool:
    """Say whether an address is one of loopback, by name or by number."""
    host = urlsplit(address).hostname
    if host is None:
        return True  # no address at all: who connects says so
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        return True  # likewise
    return all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in found)
