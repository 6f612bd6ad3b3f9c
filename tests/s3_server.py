"""A real S3 server for the tests: SeaweedFS, on loopback, with credentials."""

import json
import random
import socket
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import s3fs
from botocore.exceptions import BotoCoreError

KEY, SECRET, BUCKET = "test-key-7c1f", "test-secret-9b2e", "bucket"
ENVIRONMENT = {"TEST_S3_KEY": KEY, "TEST_S3_SECRET": SECRET}
DEADLINE_S = 60


@dataclass
class S3:
    """Where it listens, and how to get in."""

    endpoint: str

    @property
    def options(self):
        """`storage_options` of a job: the credentials come from the environment."""
        return {
            "key": "${TEST_S3_KEY}",
            "secret": "${TEST_S3_SECRET}",
            "endpoint_url": self.endpoint,
        }

    def folder(self):
        """A URL that nobody else uses."""
        return f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}"

    @property
    def fs(self):
        return s3fs.S3FileSystem(
            key=KEY, secret=SECRET, endpoint_url=self.endpoint, use_listings_cache=False
        )


def free_port():
    """A port that is free, and so is the one 10,000 above it, where SeaweedFS has its gRPC."""
    while True:
        port = random.randrange(12_000, 30_000)
        with socket.socket() as one, socket.socket() as other, suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port


@contextmanager
def running(folder: Path):
    """Start the server, make the bucket, and stop it at the end."""
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    port = free_port()
    others = ("master.port", "volume.port", "filer.port", "s3.port.iceberg", "s3.port.lance")
    ports = [f"-{name}={free_port()}" for name in others]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [
                Path(sys.executable).with_name("weed"),
                "server",
                "-s3",
                f"-s3.port={port}",
                f"-s3.config={folder / 's3.json'}",
                f"-dir={folder}",
                "-ip=127.0.0.1",
                *ports,
                "-volume.max=20",
                "-master.volumeSizeLimitMB=64",
            ],
            stdout=log,
            stderr=log,
        )
    found = S3(f"http://127.0.0.1:{port}")
    try:
        _wait(found, server, folder / "log")
        yield found
    finally:
        server.kill()  # its own way out takes half a minute
        server.wait()


def _wait(found, server, log):
    end = time.monotonic() + DEADLINE_S
    while not _answers(found):
        if time.monotonic() > end or server.poll() is not None:
            raise RuntimeError(log.read_text()[-2_000:])
        time.sleep(0.2)


def _answers(found):
    with suppress(OSError, BotoCoreError):
        found.fs.mkdir(BUCKET)
        found.fs.pipe_file(f"{BUCKET}/ready", b"ready")  # room is made for the first bytes
        return True
    return False
