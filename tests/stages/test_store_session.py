"""What a session with S3 counts and renews: a real S3 server behind a bad proxy."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import s3_proxy
import s3_server

from headrace.stages.places import place_of
from headrace.stages.store import clean_tmp, create, own_tmp, publish, replace
from headrace.stages.store_session import counted_faults

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture
def proxy(s3):
    with s3_proxy.running(s3.endpoint) as found:
        yield found


@pytest.fixture
def out(s3, proxy):
    return place_of(s3.folder(), "output.path", s3.options | {"endpoint_url": proxy.endpoint})


@pytest.fixture
def tmp(out):
    yield own_tmp(out)
    clean_tmp(out)


def first(proxy, *faults):
    """Let the next requests meet these faults, one each."""
    left = list(faults)
    proxy.fault = lambda request: left.pop(0) if left else None


@pytest.mark.parametrize(
    ("faults", "counted"),
    [
        ((), {}),
        (("slow down", "slow down"), {"SlowDown": 2}),
        (("error",), {"500": 1}),
        (("reset", "reset", "slow down"), {"EndpointConnectionError": 1, "SlowDown": 1}),
    ],
)
def test_what_the_store_refused_is_counted_by_what_it_said(out, tmp, proxy, faults, counted):
    first(proxy, *faults)
    with counted_faults() as found:
        replace(out / "name", b"rows", tmp)
    assert found == counted
    first(proxy, "slow down")
    replace(out / "name", b"rows", tmp)
    assert found == counted  # nobody counts any more


def test_a_name_that_is_taken_or_not_there_is_no_fault(out, tmp):
    with counted_faults() as found:
        assert create(out / "name", b"rows", tmp)
        assert not create(out / "name", b"rows", tmp)
        assert not (out / "other").exists()
        with pytest.raises(FileNotFoundError):
            (out / "other").read_bytes()
    assert found == {}


def test_two_shards_at_once_count_apart(out, tmp, proxy):
    """Their requests meet on one thread of s3fs."""

    def work(name):
        with counted_faults() as found:
            for _ in range(5):
                replace(out / name, b"rows", tmp)
        return found

    def unlucky(request):
        if not request.path.endswith("unlucky") or len(met) == 3:
            return None
        met.append(request)
        return "slow down"

    met = []
    proxy.fault = unlucky
    with ThreadPoolExecutor(2) as pool:
        lucky, other = pool.map(work, ["lucky", "unlucky"])
    assert (lucky, other) == ({}, {"SlowDown": 3})


@pytest.fixture
def credentials(tmp_path, monkeypatch):
    """Write the file of credentials that botocore reads; no other has any."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    def write(key, secret):
        file.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key={secret}\n")

    return write


def stale(request):
    """A store for which one key is no longer good."""
    return "expired" if "stale-key" in request.headers.get("authorization", "") else None


def test_credentials_that_expired_are_read_anew_and_the_request_is_sent_again(
    s3, proxy, tmp, credentials
):
    proxy.fault = stale
    credentials("stale-key", "stale-secret")
    place = place_of(s3.folder(), "output.path", {"endpoint_url": proxy.endpoint})
    with pytest.raises(PermissionError, match="expired"):
        create(place / "name", b"rows", tmp)
    credentials(s3_server.KEY, s3_server.SECRET)
    proxy.seen.clear()
    assert create(place / "name", b"rows", tmp)
    assert len(proxy.seen) == 2
    proxy.seen.clear()
    assert (place / "name").read_bytes() == b"rows"
    assert not any(map(stale, proxy.seen))  # the new key stays


def test_credentials_of_the_job_that_expired_are_an_error_at_once(s3, proxy, tmp, credentials):
    proxy.fault = stale
    credentials(s3_server.KEY, s3_server.SECRET)
    given = {"key": "stale-key", "secret": "stale-secret", "endpoint_url": proxy.endpoint}
    place = place_of(s3.folder(), "output.path", given)
    with pytest.raises(PermissionError, match="expired"):
        create(place / "name", b"rows", tmp)
    assert len(proxy.seen) == 1


@pytest.mark.parametrize("size_bytes", [100, 110 << 20])
def test_encryption_by_the_server_is_asked_for_whenever_a_file_begins(s3, proxy, tmp, size_bytes):
    """As a PUT, or as a multipart upload. The proxy hears it and refuses: the store has no keys."""
    proxy.fault = lambda request: "denied"
    asked = {"ServerSideEncryption": "AES256"}
    options = s3.options | {"endpoint_url": proxy.endpoint, "s3_additional_kwargs": asked}
    place = place_of(s3.folder(), "output.path", options)
    with (tmp / "part").open("wb") as sink:
        sink.truncate(size_bytes)
    with pytest.raises(PermissionError):
        publish(tmp / "part", place / "part")
    (begun,) = proxy.seen
    assert begun.method == ("PUT" if size_bytes == 100 else "POST")
    assert begun.headers["x-amz-server-side-encryption"] == "AES256"
