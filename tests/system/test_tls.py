"""A scheduler beyond this machine is spoken to by TLS alone, unless the user says otherwise."""

import datetime as dt
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from cli_support import HEADRACE, demo_rows, tiny, wait_for, write_job
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DASK = str(Path(sys.executable).with_name("dask"))


def own_address():
    """An address of this machine that is not loopback."""
    for found in psutil.net_if_addrs().values():
        for one in found:
            if one.family == socket.AF_INET and not one.address.startswith("127."):
                return one.address
    pytest.skip("this machine has no address but loopback")
    return None


@pytest.fixture(scope="session")
def pem(tmp_path_factory):
    """A certificate that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headrace tests")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return folder / "cert.pem", folder / "key.pem"


def dask_process(cli, *args):
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    return subprocess.Popen([DASK, *args], cwd=cli.folder, env=cli.env, **quiet)


def free_port(host):
    with socket.socket() as found:
        found.bind((host, 0))
        return found.getsockname()[1]


def listens(host, port):
    with socket.socket() as found:
        return found.connect_ex((host, port)) == 0


@pytest.mark.timeout(240)
def test_by_tls_beyond_this_machine(cli, tmp_path, pem):
    cert, key = pem
    host = own_address()
    port = free_port(host)
    files = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
    where = ["--host", f"tls://{host}", "--port", port, "--no-dashboard", "--protocol", "tls"]
    scheduler = dask_process(cli, "scheduler", *map(str, [*where, *files]))
    ours = ["--tls-ca", cert, "--tls-cert", cert, "--tls-key", key]
    address = f"tls://{host}:{port}"
    job = write_job(tmp_path, demo_rows(200), model=tiny())
    try:
        wait_for(lambda: listens(host, port))
        bare = cli.run(job, "--scheduler", address)
        assert bare.rc == 2
        assert "expected --tls-ca, --tls-cert and --tls-key" in bare.json["error"]
        worker = subprocess.Popen(
            [HEADRACE, "worker", address, "--cloud", "none", *map(str, ours)],
            cwd=cli.folder,
            env=cli.env,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert "1 working for tls://" in worker.stderr.readline()
            run = cli.run(job, "--scheduler", address, *ours)
            assert run.rc == 0, run.stderr
            assert run.json["rows"]["good"] == 200
        finally:
            worker.terminate()
            assert worker.wait(60) == 0
            worker.stderr.close()
    finally:
        scheduler.kill()
        scheduler.wait()


@pytest.mark.parametrize("command", ["run", "worker"])
def test_without_tls_beyond_this_machine_is_refused_unless_it_is_said(cli, tmp_path, command):
    host = own_address()
    address = f"tcp://{host}:{free_port(host)}"
    job = write_job(tmp_path, demo_rows(100), model=tiny())
    args = ["run", job, "--no-prefect", "--scheduler", address]
    args = args if command == "run" else ["worker", address]
    refused = cli(*args)
    assert refused.rc == 2
    assert f"expected TLS for a scheduler beyond this machine, got {address}" in refused.stderr
    assert "--insecure" in refused.stderr
    said = cli(*args, "--insecure")
    assert said.rc == 2
    assert f"expected a Dask scheduler at '{address}'" in said.stderr  # it was tried
    assert not (tmp_path / "out").exists()


def test_files_of_tls_that_are_missing_are_named(cli, tmp_path, pem):
    cert, _ = pem
    job = write_job(tmp_path, demo_rows(100), model=tiny())
    args = ["run", job, "--no-prefect", "--scheduler", "tls://127.0.0.1:1"]
    found = cli(*args, "--tls-ca", cert)
    assert found.rc == 2
    assert "got no --tls-cert, --tls-key" in found.stderr
    found = cli(*args, "--tls-ca", "nowhere.pem")
    assert "--tls-ca: expected a PEM file, got 'nowhere.pem'" in found.stderr
    found = cli("run", job, "--no-prefect", "--scheduler", "tcp://127.0.0.1:1", "--tls-ca", cert)
    assert found.rc == 2
