"""The output's files on a real S3 server."""

import hashlib
import os
import subprocess
import sys
import threading

import pytest
import s3_server

from headrace.schemas import layout
from headrace.schemas.errors import OutputError
from headrace.stages import store
from headrace.stages.commit import seen
from headrace.stages.destination import made, refuse_careless_store, set_aside
from headrace.stages.places import files_below, place_of
from headrace.stages.store import (
    clean_tmp,
    create,
    file_sha256,
    move,
    names_in,
    own_tmp,
    publish,
    remove,
    replace,
    visible_files,
    writing,
)

pytestmark = pytest.mark.xdist_group("s3")
MIB = 1 << 20


@pytest.fixture
def out(s3):
    return place_of(s3.folder(), "output.path", s3.options)


@pytest.fixture
def tmp(out):
    yield own_tmp(out)
    clean_tmp(out)


def test_a_name_is_created_once(out, tmp):
    assert create(out / "_headrace/plan.json", b"first", tmp)
    assert not create(out / "_headrace/plan.json", b"second", tmp)
    assert (out / "_headrace/plan.json").read_bytes() == b"first"


@pytest.mark.parametrize("size", [3, 120 * MIB])
def test_a_file_is_published_once_whole_whether_in_parts_or_not(out, tmp, size):
    data = os.urandom(MIB) * (size // MIB) or b"abc"
    for content, first in ((data, True), (data[::-1], False)):
        file = tmp / "part"
        file.write_bytes(content)
        assert publish(file, out / "part") is first
        assert not file.exists()
    assert file_sha256(out / "part") == hashlib.sha256(data).hexdigest()
    uploads = out.fs.call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads", [])
    assert [upload for upload in uploads if out.name in upload["Key"]] == []


def test_of_many_writers_one_is_first(out, tmp):
    results, barrier = [], threading.Barrier(8)

    def write(number):
        barrier.wait()
        results.append((create(out / "raced", b"%d" % number, tmp), number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [number for first, number in results if first]
    assert (out / "raced").read_bytes() == b"%d" % winner


def test_a_view_is_replaced(out, tmp):
    for text in (b"old", b"new and longer"):
        replace(out / "_headrace/run.json", text, tmp)
        assert (out / "_headrace/run.json").read_bytes() == text


def test_names_are_seen_at_once_and_sorted(out, tmp):
    assert names_in(out) == []
    for name in ("b", "a/c", "_headrace/x", ".hidden", "a/_d"):
        create(out / name, b"", tmp)
    assert names_in(out) == [".hidden", "_headrace", "a", "b"]
    assert list(visible_files(out)) == ["a/c", "b"]
    remove(out / "b")
    assert "b" not in names_in(out)


def test_what_changes_with_the_bytes_is_seen(out, tmp):
    replace(out / "part", b"one", tmp)
    before = seen(out / "part")
    assert seen(out / "part") == before
    replace(out / "part", b"two", tmp)
    assert seen(out / "part") != before
    assert before[0] == 3


def test_a_file_is_moved_within_the_output(out, tmp):
    create(out / "part", b"bytes", tmp)
    move(out, "part", f"{layout.BROKEN}/part.0")
    assert names_in(out) == ["_headrace"]
    assert (out / layout.BROKEN / "part.0").read_bytes() == b"bytes"


def test_an_old_output_is_set_aside_whole(out, tmp):
    for name in (layout.PLAN, "part", "_SUCCESS"):
        create(out / name, name.encode(), tmp)
    aside = set_aside(out, "now")
    assert files_below(out) == []
    assert aside.name == f"{out.name}.replaced-now"
    assert {file: (aside / file).read_bytes() for file in (layout.PLAN, "part", "_SUCCESS")} == {
        name: name.encode() for name in (layout.PLAN, "part", "_SUCCESS")
    }
    assert set_aside(out, "later") is None


def test_a_store_that_creates_exclusively_is_taken_and_left_as_it_was(out):
    with made(out):
        pass
    assert files_below(out) == []


def test_a_store_that_writes_over_names_is_refused_before_anything_is_lost(out, monkeypatch):
    """As some do that speak S3: they pass over the header."""
    monkeypatch.setattr(store, "_created", lambda work, *_: bool([work()]))
    pipe = out.fs.pipe_file
    monkeypatch.setattr(out.fs, "pipe_file", lambda path, data, mode="": pipe(path, data))
    with pytest.raises(OutputError, match="expected a store that creates a file only where"):
        refuse_careless_store(out)
    assert files_below(out) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [({"secret": "wrong-secret"}, "signature"), ({"key": "nobody"}, "access key")],
)
def test_who_may_not_write_is_told_so_at_once(s3, out, tmp, change, words):
    closed = place_of(str(out), "output.path", s3.options | change)
    expected = f"expected to write in {out}, got: .*{words}"
    with (
        pytest.raises(OutputError, match=expected) as caught,
        writing(closed, refusals_only=True),
    ):
        create(closed / "x", b"", tmp)
    assert "wrong-secret" not in str(caught.value)


MEASURED = """
import resource, sys
from pathlib import Path
from headrace.stages.places import place_of
from headrace.stages.store import publish
place = place_of(sys.argv[1], "output.path", {"endpoint_url": sys.argv[2]})
(place / "ready").exists()  # connects
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert publish(Path(sys.argv[3]), place / "large")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_a_large_part_is_uploaded_in_bounded_memory(s3, out, tmp):
    """Twice ten blocks of 16 MiB, whatever the size; in a process that did nothing else before."""
    with (tmp / "large").open("wb") as sink:
        sink.truncate(1_000 * MIB)
    keys = {"AWS_ACCESS_KEY_ID": s3_server.KEY, "AWS_SECRET_ACCESS_KEY": s3_server.SECRET}
    found = subprocess.run(
        [sys.executable, "-c", MEASURED, str(out), s3.endpoint, str(tmp / "large")],
        env=os.environ | keys,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(found.stdout) < 400
    assert out.fs.size(f"{out.path}/large") == 1_000 * MIB
