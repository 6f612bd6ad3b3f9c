"""Which schedulers may be spoken to, and how. The handshake is in tests/system/test_tls.py."""

import pytest

from headrace.flows.transport import check_transport, security_of, security_settings
from headrace.schemas.errors import JobError
from headrace.schemas.transport import PLAIN, Transport


@pytest.fixture
def files(tmp_path):
    """TLS's three files; what is in them is not looked at here."""
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text("PEM")
    return Transport(*(str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")))


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:1", "tcp://127.1.2.3:1", "tcp://localhost:1", "tcp://[::1]:1", "inproc://x"],
)
def test_on_this_machine_a_scheduler_needs_no_tls(address):
    check_transport(address, PLAIN)


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "tcp://[2001:db8::1]:8786"])
def test_beyond_it_tls_or_a_word_is_needed(address):
    with pytest.raises(JobError, match="expected TLS for a scheduler beyond this machine"):
        check_transport(address, PLAIN)
    check_transport(address, Transport(insecure=True))


def test_tls_needs_its_three_files_and_an_address_of_its_own(files):
    check_transport("tls://10.0.0.1:8786", files)
    with pytest.raises(JobError, match="expected --tls-ca, --tls-cert and --tls-key for"):
        check_transport("tls://10.0.0.1:8786", Transport(insecure=True))
    with pytest.raises(JobError, match=r"got no --tls-key$"):
        check_transport("tls://10.0.0.1:8786", Transport(ca=files.ca, cert=files.cert))
    with pytest.raises(JobError, match="as tls://HOST:PORT beside --tls-ca, got 'tcp://"):
        check_transport("tcp://127.0.0.1:8786", files)
    with pytest.raises(JobError, match="--tls-key: expected a PEM file, got 'nowhere'"):
        check_transport("tls://h:1", Transport(ca=files.ca, cert=files.cert, key="nowhere"))


def test_dask_s_security_requires_encryption_for_each_role(files):
    assert security_settings(PLAIN) is None
    assert security_of(PLAIN) is None
    security = security_of(files)
    assert security.require_encryption is True
    assert security.tls_ca_file == files.ca
    for role in ("client", "worker"):
        assert getattr(security, f"tls_{role}_cert") == files.cert
        assert getattr(security, f"tls_{role}_key") == files.key
