import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError
from headrace.schemas.report import Price, ShardReport
from headrace.stages.holding import look_at, read_footer_report, repair
from headrace.stages.store import as_json, read_json

PRICE = Price(worker_per_hour=3_600.0, currency="USD", source="job", date=None)


@pytest.fixture
def run(finished_run):
    return finished_run(price=PRICE)


def written(run, index):
    return read_json(run.out / layout.report_path(run.shards[index].part), ShardReport)


def flip(file, *, quietly=False):
    """Change a byte of the first page; quietly: as a disk does, size and time as they were."""
    stat, content = file.stat(), bytearray(file.read_bytes())
    content[8] ^= 1
    file.write_bytes(content)
    if quietly:
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_a_finished_output_holds(run):
    holding = look_at(run.out, run.plan)
    assert holding.complete
    assert holding.reports == {index: written(run, index) for index in range(3)}
    assert (holding.rebuilt, holding.damaged, holding.missing) == ((), {}, ())


def test_an_output_without_a_part_misses_all(tiny_run):
    run = tiny_run()
    holding = look_at(run.out, run.plan)
    assert not holding.complete
    assert holding.missing == (0, 1, 2)
    assert holding.reports == {}


def test_a_missing_part_is_missing(run):
    run.part(1).unlink()
    holding = look_at(run.out, run.plan)
    assert not holding.complete
    assert holding.missing == (1,)
    assert set(holding.reports) == {0, 2}


def test_looking_writes_nothing(run):
    run.part(1).unlink()
    (run.out / layout.report_path(run.shards[0].part)).unlink()
    flip(run.part(2))
    before = sorted((path, path.stat().st_mtime_ns) for path in run.out.rglob("*"))
    look_at(run.out, run.plan)
    assert sorted((path, path.stat().st_mtime_ns) for path in run.out.rglob("*")) == before


def _truncated(run):
    run.part(1).write_bytes(run.part(1).read_bytes()[:-100])


def _emptied(run):
    run.part(1).write_bytes(b"")


def _flipped(run):
    flip(run.part(1))


def _foreign(run):
    pq.write_table(pa.table({"text": ["mine"]}), run.part(1))


def _neighbour(run):
    run.part(1).write_bytes(run.part(0).read_bytes())


def _other_job(run):
    report = read_footer_report(run.part(1)).model_copy(update={"job_fingerprint": "other"})
    run.recommit(1, report=report)


def _other_input(run):
    report = read_footer_report(run.part(1)).model_copy(update={"input_fingerprint": "other"})
    run.recommit(1, report=report)


def _uncommitted(run):
    for file in (run.out / layout.COMMITS).glob(f"{run.shards[1].part}.*"):
        file.unlink()
    os.utime(run.part(1))


DAMAGE = {
    _truncated: "footer can't be read",
    _emptied: "footer can't be read",
    _flipped: "not those that were committed",
    _foreign: "carries no headrace report",
    _neighbour: "another job, input or shard",
    _other_job: "another job, input or shard",
    _other_input: "another job, input or shard",
    _uncommitted: "not those that were committed",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_part_is_named_and_moved_aside(run, damage):
    damage(run)
    spoilt = run.part(1).read_bytes()
    holding = look_at(run.out, run.plan)
    assert set(holding.damaged) == {1}
    assert DAMAGE[damage] in holding.damaged[1]
    assert run.shards[1].part in holding.damaged[1]
    assert set(holding.reports) == {0, 2}
    assert not holding.complete

    repair(run.out, run.plan, holding)
    assert not run.part(1).exists()
    assert (run.out / layout.BROKEN / f"{run.shards[1].part}.0").read_bytes() == spoilt
    assert not (run.out / layout.SUCCESS).exists()
    assert look_at(run.out, run.plan).missing == (1,)
    run.compute(1)
    assert look_at(run.out, run.plan).complete


def test_what_is_moved_aside_twice_is_kept_twice(run):
    for count in (1, 2):
        _truncated(run)
        repair(run.out, run.plan, look_at(run.out, run.plan))
        assert len(list((run.out / layout.BROKEN).iterdir())) == count
        run.compute(1)


def test_success_does_not_outlive_a_missing_part(run):
    run.part(1).unlink()
    repair(run.out, run.plan, look_at(run.out, run.plan))
    assert not (run.out / layout.SUCCESS).exists()


def test_a_lost_report_is_rebuilt_from_the_footer(run):
    lost = written(run, 1)
    path = run.out / layout.report_path(run.shards[1].part)
    path.unlink()
    holding = look_at(run.out, run.plan)
    assert holding.complete
    assert holding.rebuilt == (1,)
    rebuilt = holding.reports[1]
    assert rebuilt.tally.seconds.write_s is None
    assert rebuilt.tally.rows == lost.tally.rows
    assert rebuilt.tally.bytes_out == lost.tally.bytes_out
    assert rebuilt.tally.cost == PRICE.of(rebuilt.tally.charged_s)
    assert rebuilt.file == lost.file

    repair(run.out, run.plan, holding)
    assert written(run, 1) == rebuilt
    again = look_at(run.out, run.plan)
    assert (again.rebuilt, again.reports[1]) == ((), rebuilt)
    assert (run.out / layout.SUCCESS).exists()


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 1}'])
def test_a_damaged_report_is_rebuilt_too(run, content):
    (run.out / layout.report_path(run.shards[1].part)).write_bytes(content)
    holding = look_at(run.out, run.plan)
    assert holding.rebuilt == (1,)
    assert holding.complete


def test_a_moved_file_keeps_its_report_and_gets_the_new_time(run):
    before = written(run, 1)
    os.utime(run.part(1), ns=(1, 1))
    holding = look_at(run.out, run.plan)
    assert holding.rebuilt == (1,)
    assert holding.reports[1].tally == before.tally
    assert holding.reports[1].file == before.file.model_copy(update={"version": "1"})


def test_the_record_of_an_attempt_that_lost_does_not_matter(run):
    name = layout.commit_path(run.shards[1].part, "0" * 64)
    (run.out / name).write_text("{}")
    os.utime(run.part(1))
    assert look_at(run.out, run.plan).complete


def test_a_file_of_the_same_size_and_time_is_trusted(run):
    """The cheap check trusts them, which is what `headrace verify` is for."""
    flip(run.part(1), quietly=True)
    assert look_at(run.out, run.plan).complete


def test_a_footer_that_can_not_be_read_is_damage(run, tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(DamagedError, match=r"x\.parquet: its footer can't be read"):
        read_footer_report(tmp_path / "x.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "y.parquet")
    with pytest.raises(DamagedError, match=r"y\.parquet: its footer carries no headrace report"):
        read_footer_report(tmp_path / "y.parquet")


def test_repairing_what_holds_changes_nothing(run):
    report = as_json(written(run, 1))
    repair(run.out, run.plan, look_at(run.out, run.plan))
    assert as_json(written(run, 1)) == report
    assert (run.out / layout.SUCCESS).exists()
    assert not (run.out / layout.BROKEN).exists()
