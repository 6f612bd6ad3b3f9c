"""What a store does to a request, and what becomes of it: a real S3 server behind a bad proxy."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3_proxy

from headrace.schemas.plan import Slice
from headrace.stages.parquet_file import parquet_stored_bytes, read_parquet
from headrace.stages.places import place_of
from headrace.stages.store import (
    clean_tmp,
    create,
    file_sha256,
    names_in,
    own_tmp,
    publish,
    replace,
)

pytestmark = pytest.mark.xdist_group("s3")
# `conflict` is told of conditional writes alone; `lost` was done, and nobody heard of it.
PASSING = ("slow down", "error", "reset", "truncated", "lost", "stall")
# The rest, by `make test-all`: a fault costs the seconds of a back-off.
FEW = ("reset", "truncated")
SWEPT = [
    *FEW,
    *(pytest.param(fault, marks=pytest.mark.slow) for fault in PASSING[:2] + PASSING[4:]),
]
QUICK = {
    "read_timeout": 1,
    "connect_timeout": 5,
    "retries": {"mode": "standard", "max_attempts": 3},
}


@pytest.fixture
def proxy(s3):
    with s3_proxy.running(s3.endpoint) as found:
        yield found


@pytest.fixture
def out(s3, proxy):
    changes = {"endpoint_url": proxy.endpoint, "config_kwargs": QUICK}
    return place_of(s3.folder(), "output.path", s3.options | changes)


@pytest.fixture
def tmp(out):
    yield own_tmp(out)
    clean_tmp(out)


def once(proxy, fault, method=None):
    """Let one request meet a fault: the first one from now on, or the first of a method."""
    left = [fault]

    def decide(request):
        if left and method in (None, request.method):
            return left.pop()
        return None

    proxy.fault = decide
    return left


@pytest.mark.parametrize("fault", [*PASSING, "conflict"])
def test_a_name_is_created_once_whatever_one_request_meets(out, tmp, proxy, fault):
    left = once(proxy, fault, "PUT")
    first = create(out / "name", b"ours", tmp)
    assert not left
    assert first is (fault != "lost")  # then it is there by the first of two requests
    assert (out / "name").read_bytes() == b"ours"
    assert not create(out / "name", b"theirs", tmp)
    assert (out / "name").read_bytes() == b"ours"


@pytest.mark.parametrize("fault", [*SWEPT, "conflict"])
def test_a_file_is_published_whole_whatever_one_request_meets(out, tmp, proxy, fault):
    (tmp / "part").write_bytes(b"0123456789" * 10_000)
    once(proxy, fault, "PUT")
    publish(tmp / "part", out / "part")
    proxy.fault = None
    assert (out / "part").read_bytes() == b"0123456789" * 10_000
    assert not (tmp / "part").exists()


@pytest.mark.parametrize("fault", SWEPT)
def test_what_is_read_is_what_is_there(out, tmp, proxy, fault):
    replace(out / "name", b"0123456789" * 1_000, tmp)
    expected = file_sha256(out / "name")
    once(proxy, fault)
    assert file_sha256(out / "name") == expected
    once(proxy, fault)
    assert (out / "name").read_bytes() == b"0123456789" * 1_000
    once(proxy, fault)
    assert names_in(out) == ["name"]


@pytest.mark.parametrize("fault", SWEPT)
def test_rows_are_read_right_through_a_fault_at_any_request(out, s3, proxy, fault):
    table = pa.table({"id": range(400), "text": [f"row {at}" for at in range(400)]})
    with s3.fs.open(f"{out.path}/a.parquet", "wb") as sink:
        pq.write_table(table, sink, row_group_size=100)
    piece = Slice("a.parquet", 2, 0, 100)
    proxy.seen.clear()
    expected = pa.concat_tables(read_parquet(out / "a.parquet", piece, ["text"]))
    assert expected.equals(table.select(["text"]).slice(200, 100))
    for at in range(1, len(proxy.seen) + 1):
        proxy.seen.clear()
        proxy.fault = lambda request, at=at: fault if request.number == at else None
        found = pa.concat_tables(read_parquet(out / "a.parquet", piece, ["text"]))
        assert found.equals(expected)


def test_many_faults_in_a_row_are_an_error_of_the_disk_s_kind(out, tmp, proxy):
    """Which a shard meets by another attempt; the name in it says where."""
    proxy.fault = lambda request: "reset"
    with pytest.raises(OSError, match=out.name):
        create(out / "name", b"ours", tmp)


def test_who_may_not_write_is_not_asked_again(s3, proxy, tmp):
    changes = {"endpoint_url": proxy.endpoint, "secret": "wrong"}
    closed = place_of(s3.folder(), "output.path", s3.options | changes)
    with pytest.raises(PermissionError):
        create(closed / "name", b"ours", tmp)
    assert len(proxy.seen) == 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(at, marks=pytest.mark.slow) for at in (1, 2))])
def test_any_mixture_of_faults_leaves_every_name_whole_and_written_once(out, tmp, proxy, seed):
    """One in four requests; of two writers for each name, one is first, and its bytes stay."""
    draw = random.Random(seed)
    kinds = [*PASSING[:3], "lost", "conflict"]
    proxy.fault = lambda request: draw.choice(kinds) if draw.random() < 0.25 else None
    ours, theirs = {}, {}
    for at in range(20):
        for mine, text in ((ours, b"ours"), (theirs, b"theirs")):
            try:
                mine[at] = create(out / str(at), text, tmp)
            except OSError:
                mine[at] = None  # unclear: it may be there
    proxy.fault = None
    for at in range(20):
        found = (out / str(at)).read_bytes()
        assert found in (b"ours", b"theirs")
        assert not (ours[at] and theirs[at])
        if ours[at]:
            assert found == b"ours"
        if theirs[at]:
            assert found == b"theirs"


def test_of_a_store_s_file_only_what_is_needed_is_read(s3, proxy, out):
    """The footer, and the chunks of one column in one row group."""
    draw = random.Random(0)
    columns = {name: [draw.random() for _ in range(20_000)] for name in "abcdefgh"}
    with s3.fs.open(f"{out.path}/a.parquet", "wb") as sink:
        pq.write_table(pa.table(columns), sink, row_group_size=2_000)
    size = s3.fs.size(f"{out.path}/a.parquet")
    fetched, cat = [], out.fs.cat_file

    def counted(*args, **named):
        data = cat(*args, **named)
        fetched.append(len(data))
        return data

    ranges, cat_ranges = [], out.fs.cat_ranges

    def counted_ranges(paths, starts, ends, **named):
        ranges.extend(end - start for start, end in zip(starts, ends, strict=True))
        return cat_ranges(paths, starts, ends, **named)

    out.fs.cat_file, out.fs.cat_ranges = counted, counted_ranges
    try:
        piece = Slice("a.parquet", 3, 0, 2_000)
        found = pa.concat_tables(read_parquet(out / "a.parquet", piece, ["c"]))
        assert found["c"].to_pylist() == columns["c"][6_000:8_000]
        stored = parquet_stored_bytes(out / "a.parquet", piece, ["c"])
    finally:
        del out.fs.cat_file, out.fs.cat_ranges
    assert sum(ranges) <= stored + 100
    assert sum(fetched) + sum(ranges) < size / 6
