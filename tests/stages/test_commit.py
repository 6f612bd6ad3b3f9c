import shutil
import threading

import pyarrow as pa
import pytest

from headrace.schemas import layout
from headrace.schemas.report import Rows
from headrace.stages.commit import CommitRecord, commit
from headrace.stages.encode import encode
from headrace.stages.store import file_sha256, own_tmp, read_json

PART = layout.part_name(7, "1f3a9c07")


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def attempt(out, make_report):
    """Encode one attempt's bytes; another value gives other bytes."""

    def make(value):
        table = pa.table({"n": [value], "headrace_error": pa.nulls(1, pa.string())})
        return encode(table, own_tmp(out), "zstd", make_report(shard=7, shard_id="1f3a9c07"))

    return make


@pytest.fixture
def report(make_report):
    return make_report(shard=7, shard_id="1f3a9c07", rows=Rows(in_=1, good=1))


def data_files(out):
    return sorted(file.name for file in out.glob("*.parquet"))


def test_a_commit_makes_the_file_and_its_record(out, attempt, report):
    tmp_file = attempt(1)
    sha256, size = file_sha256(tmp_file), tmp_file.stat().st_size
    file = commit(tmp_file, out, PART, report, "listed", own_tmp(out))
    assert (file.name, file.sha256, file.size_bytes) == (PART, sha256, size)
    assert file.version == str((out / PART).stat().st_mtime_ns)
    assert file_sha256(out / PART) == sha256
    assert list(own_tmp(out).iterdir()) == []
    record = read_json(out / layout.commit_path(PART, sha256), CommitRecord)
    assert record == CommitRecord(
        part=PART,
        sha256=sha256,
        size_bytes=size,
        shard=7,
        shard_id="1f3a9c07",
        job_fingerprint=report.job_fingerprint,
        input_fingerprint=report.input_fingerprint,
        rows=Rows(in_=1, good=1),
        errors_sha256="listed",
    )


def test_the_first_writer_wins(out, attempt, report):
    first, second = attempt(1), attempt(2)
    won = commit(first, out, PART, report, "listed", own_tmp(out))
    before = (out / PART).read_bytes()
    assert commit(second, out, PART, report, "listed", own_tmp(out)) is None
    assert (out / PART).read_bytes() == before
    assert data_files(out) == [PART]
    assert list(own_tmp(out).iterdir()) == []
    assert won.sha256 == file_sha256(out / PART)


def test_equal_bytes_count_as_ours(out, attempt, report):
    first = attempt(1)
    second = first.with_name("second.parquet")
    shutil.copyfile(first, second)
    won = commit(first, out, PART, report, "listed", own_tmp(out))
    assert commit(second, out, PART, report, "listed", own_tmp(out)) == won
    assert list(own_tmp(out).iterdir()) == []


def test_each_attempt_s_bytes_have_a_record(out, attempt, report):
    for value in (1, 2):
        commit(attempt(value), out, PART, report, "listed", own_tmp(out))
    assert len(list((out / layout.COMMITS).iterdir())) == 2


def test_the_record_is_there_before_the_file(out, attempt, report, monkeypatch):
    from headrace.stages import commit as module

    def crash(tmp_file, target):
        raise InterruptedError

    monkeypatch.setattr(module, "publish", crash)
    with pytest.raises(InterruptedError):
        commit(attempt(1), out, PART, report, "listed", own_tmp(out))
    assert len(list((out / layout.COMMITS).iterdir())) == 1
    assert data_files(out) == []


def test_of_many_writers_exactly_one_wins(out, attempt, report):
    files = [attempt(value) for value in range(8)]
    gate, results = threading.Barrier(8), []

    def write(tmp_file):
        gate.wait()
        results.append(commit(tmp_file, out, PART, report, "listed", own_tmp(out)))

    threads = [threading.Thread(target=write, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [file for file in results if file is not None]
    assert len(results) == 8
    assert winner.sha256 == file_sha256(out / PART)
    assert list(own_tmp(out).iterdir()) == []


@pytest.mark.parametrize("step", ["create", "publish", "file_sha256"])
def test_an_attempt_that_the_disk_refuses_leaves_nothing_in_its_way(
    out, attempt, report, monkeypatch, step
):
    file = attempt(1)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"headrace.stages.commit.{step}", full)
    with pytest.raises(OSError, match="No space"):
        commit(file, out, PART, report, None, own_tmp(out))
    assert list(own_tmp(out).iterdir()) == []
    assert data_files(out) == []
