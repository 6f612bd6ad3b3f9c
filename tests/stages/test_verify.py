import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError
from headrace.schemas.report import Rows
from headrace.stages.commit import CommitRecord
from headrace.stages.holding import read_footer_report
from headrace.stages.store import as_json, file_sha256, read_json
from headrace.stages.verify import verify


@pytest.fixture
def run(finished_run):
    return finished_run()


def only_fault(run):
    found = verify(run.out)
    assert not found.ok
    (fault,) = found.faults
    return fault


def fault_of_part(run, index=1):
    """The one fault of a part; what it does to `_SUCCESS` is said too."""
    found = verify(run.out)
    assert not found.ok
    assert found.shards == 2
    part, success = found.faults
    assert part.startswith(f"{run.shards[index].part}: ")
    assert success == "_SUCCESS: there though shards are missing or faulty"
    return part


def test_a_finished_output_is_proven(run):
    found = verify(run.out)
    assert found.ok, found.faults
    assert found.faults == ()
    assert found.rows == Rows(in_=14, good=9, null=2, errors=3)
    assert found.rows_planned == 14
    assert (found.shards, found.shards_planned) == (3, 3)
    assert found.bytes_read == sum(run.part(index).stat().st_size for index in range(3))


def test_an_output_with_dropped_rows_is_proven(finished_run):
    run = finished_run(errors__mode="drop")
    found = verify(run.out)
    assert found.ok, found.faults
    assert found.rows == Rows(in_=14, good=9, null=2, errors=3)


@pytest.mark.parametrize("mode", ["null", "drop"])
def test_an_output_whose_columns_have_a_prefix_is_proven(finished_run, mode):
    run = finished_run(output__prefix="b_", errors__mode=mode)
    assert "b_headrace_error" in pq.read_schema(run.part(0)).names
    found = verify(run.out)
    assert found.ok, found.faults
    assert found.rows == Rows(in_=14, good=9, null=2, errors=3)


def test_an_empty_output_is_proven(finished_run, tmp_path):
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "none.parquet")
    found = verify(finished_run(input__path=str(tmp_path / "none.parquet")).out)
    assert found.ok, found.faults
    assert (found.rows, found.shards) == (Rows(), 1)


def test_a_folder_without_a_plan_can_not_be_proven(tmp_path):
    with pytest.raises(DamagedError, match="expected the output folder"):
        verify(tmp_path)


def test_a_missing_part_is_found(run):
    run.part(1).unlink()
    assert "missing; run the job again" in fault_of_part(run)


def test_a_run_that_goes_on_misses_parts_and_nothing_else(tiny_run):
    run = tiny_run()
    run.compute(0)
    found = verify(run.out)
    assert [fault.split(": ")[1][:7] for fault in found.faults] == ["missing"] * 2
    assert found.rows == Rows(in_=5, good=3, null=1, errors=1)


def test_a_truncated_part_is_found(run):
    run.part(1).write_bytes(run.part(1).read_bytes()[:-50])
    assert "it was changed" in fault_of_part(run)


def test_every_flipped_byte_is_found(run):
    content = run.part(1).read_bytes()
    stat = run.part(1).stat()
    for at in range(0, len(content), len(content) // 23):
        changed = bytearray(content)
        changed[at] ^= 1
        run.part(1).write_bytes(changed)
        os.utime(run.part(1), ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert "it was changed" in fault_of_part(run)


def record_of(run, index):
    file = run.part(index)
    return run.out / layout.commit_path(file.name, file_sha256(file))


def test_a_byte_that_was_wrong_before_the_commit_is_found_by_its_page(finished_run):
    run = finished_run(output__compression="none")
    record, file = read_json(record_of(run, 1), CommitRecord), run.part(1)
    content = bytearray(file.read_bytes())
    content[content.index((7).to_bytes(8, "little"))] ^= 1  # an id: it can be read all the same
    file.write_bytes(content)
    changed = record.model_copy(update={"sha256": file_sha256(file)})
    record_of(run, 1).write_bytes(as_json(changed))
    assert "it can't be read" in fault_of_part(run)


@pytest.mark.parametrize("name", ["extra.parquet", "notes.txt", "sub/part-0.parquet"])
def test_a_stray_file_is_found(run, name):
    (run.out / name).parent.mkdir(exist_ok=True)
    (run.out / name).touch()
    assert only_fault(run).startswith(f"{name}: a file that the plan does not know")


def test_a_second_file_for_a_shard_is_found(run):
    double = run.out / layout.part_name(1, "00000000")
    double.write_bytes(run.part(1).read_bytes())
    assert double.name in only_fault(run)


@pytest.mark.parametrize("name", ["_notes", ".hidden", "_sub/a.parquet", ".sub/a.parquet"])
def test_names_that_readers_skip_are_no_fault(run, name):
    (run.out / name).parent.mkdir(exist_ok=True)
    (run.out / name).touch()
    assert verify(run.out).ok


def test_a_missing_success_is_found(run):
    (run.out / layout.SUCCESS).unlink()
    assert only_fault(run).startswith("_SUCCESS: missing though every shard is committed")


def test_another_attempt_s_record_does_not_matter(run):
    (run.out / layout.commit_path(run.shards[1].part, "0" * 64)).write_text("{}")
    assert verify(run.out).ok


def test_a_lost_report_does_not_matter(run):
    (run.out / layout.report_path(run.shards[1].part)).unlink()
    assert verify(run.out).ok


def test_a_lost_commit_record_is_found(run):
    record_of(run, 1).unlink()
    assert "no commit record" in fault_of_part(run)


def test_a_damaged_commit_record_is_found(run):
    record_of(run, 1).write_text("{")
    found = verify(run.out)
    assert any("expected a CommitRecord" in fault for fault in found.faults)


@pytest.mark.parametrize("field", ["job_fingerprint", "input_fingerprint", "shard_id"])
@pytest.mark.parametrize("place", ["footer", "commit record"])
def test_another_fingerprint_is_found(run, field, place):
    if place == "footer":
        report = read_footer_report(run.part(1)).model_copy(update={field: "other"})
        run.recommit(1, report=report)
    record = read_json(record_of(run, 1), CommitRecord)
    known = {
        "job_fingerprint": run.plan.header.job_fingerprint,
        "input_fingerprint": run.plan.header.input_fingerprint,
        "shard_id": run.shards[1].id,
    }
    known = known if place == "footer" else known | {field: "other"}
    record_of(run, 1).write_bytes(as_json(record.model_copy(update=known)))
    assert f"its {place} names another job, input or shard" in fault_of_part(run)


def with_rows(run, index, **counts):
    report = read_footer_report(run.part(index))
    rows = report.tally.rows.model_copy(update=counts)
    return report.model_copy(update={"tally": report.tally.model_copy(update={"rows": rows})})


def test_counts_that_the_columns_do_not_bear_out_are_found(run):
    run.recommit(1, report=with_rows(run, 1, good=4, errors=1))
    fault = fault_of_part(run)
    assert "says 5 in = 4 good + 0 null + 1 errors" in fault
    assert "its columns say 5 in = 3 good + 0 null + 2 errors" in fault


def test_a_lost_row_is_found(run):
    table = pq.read_table(run.part(1)).slice(1)
    run.recommit(1, table=table)
    assert "its columns say 5 in = 2 good" in fault_of_part(run)


def test_a_lost_row_is_found_even_if_every_count_agrees(run):
    table = pq.read_table(run.part(1)).slice(1)
    run.recommit(1, table=table, report=with_rows(run, 1, good=2))
    assert "rows are lost: 5 in = 2 good + 0 null + 2 errors" in fault_of_part(run)


def test_a_doubled_row_is_found(run):
    table = pq.read_table(run.part(1))
    doubled = pa.concat_tables([table, table.slice(0, 1)])
    run.recommit(1, table=doubled, report=with_rows(run, 1, good=4))
    assert "rows are lost" in fault_of_part(run)


def test_a_lost_good_row_among_dropped_ones_is_found(finished_run):
    run = finished_run(errors__mode="drop")
    table = pq.read_table(run.part(1)).slice(1)
    run.recommit(1, table=table, report=with_rows(run, 1, good=2, errors=3))
    assert "3 rows have an error, and 2 are listed" in fault_of_part(run)


def test_a_lost_list_of_errors_is_found(run):
    for file in (run.out / layout.ERRORS).glob(f"{run.shards[1].part}.*"):
        file.unlink()
    assert "2 rows have an error, and 0 are listed" in fault_of_part(run)


def test_a_changed_list_of_errors_is_found(run):
    (file,) = (run.out / layout.ERRORS).glob(f"{run.shards[1].part}.*")
    file.write_text(file.read_text().replace('"row": 1', '"row": 2'))
    assert "list" in fault_of_part(run)


def test_a_good_row_without_a_result_is_found(run):
    table = pq.read_table(run.part(1))
    at = table.schema.get_field_index("embedding")
    empty = pa.nulls(table.num_rows, table.schema.field(at).type)
    run.recommit(1, table=table.set_column(at, "embedding", empty))
    assert fault_of_part(run)


def test_a_part_whose_columns_have_another_prefix_is_found(finished_run):
    run = finished_run(output__prefix="b_")
    table = pq.read_table(run.part(1))
    names = [name.removeprefix("b_") for name in table.column_names]
    run.recommit(1, table=table.rename_columns(names))
    assert "it can't be read" in fault_of_part(run)


def test_a_part_without_reasons_is_found(run):
    run.recommit(1, table=pq.read_table(run.part(1)).drop_columns(["headrace_error"]))
    assert "it can't be read" in fault_of_part(run)


@pytest.mark.parametrize("change", ["type", "metadata"])
def test_a_part_of_another_schema_is_named(run, change):
    """Every reader of the folder would stumble over it, or read something else."""
    table = pq.read_table(run.part(1), partitioning=None)
    if change == "type":
        table = table.set_column(0, "id", table["id"].cast(pa.int32()))
    else:
        table = table.replace_schema_metadata({"who": "somebody else"})
    run.recommit(1, table=table)
    assert only_fault(run).startswith(
        f"{run.shards[1].part}: its schema is not that of {run.shards[0].part}"
    )
