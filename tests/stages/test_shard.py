import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas import layout
from headrace.schemas.errors import ShardError
from headrace.schemas.report import Price, Rows, ShardReport
from headrace.stages.commit import CommitRecord
from headrace.stages.holding import read_footer_report
from headrace.stages.shard import process_shard
from headrace.stages.store import own_tmp, read_json

NULL, BOOM, NAN = "null input", "ValueError in forward", "NonFiniteResult in forward"


def read(run, *indices):
    return pa.concat_tables(pq.read_table(run.part(index)) for index in indices)


def test_rows_keep_their_place_with_result_or_reason(tiny_run):
    run = tiny_run()
    run.compute(0, 1, 2)
    table = read(run, 0, 1, 2)
    assert table.column_names == ["id", "text", "embedding", "headrace_error"]
    assert table.column("id").to_pylist() == [*range(10), *range(4)]
    assert table.column("headrace_error").to_pylist() == [
        *(None, None, NULL, None, BOOM),
        *(None, NAN, None, NAN, None),
        *(None, None, NULL, None),
    ]
    module = run.place.forward.module
    for row in table.to_pylist():
        assert (row["embedding"] is None) == (row["headrace_error"] is not None)
        if row["embedding"] is not None:
            np.testing.assert_allclose(row["embedding"], module.vector(row["text"]), atol=1e-6)


def test_everything_that_is_added_carries_the_prefix(tiny_run):
    run = tiny_run(output__prefix="b_", output__columns=["id"])
    run.compute(0)
    assert read(run, 0).column_names == ["id", "b_embedding", "b_headrace_error"]


def test_a_report_says_what_was_done(tiny_run):
    price = Price(worker_per_hour=3_600.0, currency="USD", source="job", date=None)
    run = tiny_run(price=price)
    (report,) = run.compute(0)
    shard, tally = run.shards[0], report.tally
    assert (report.shard, report.shard_id, report.attempt) == (0, shard.id, 1)
    assert report.job_fingerprint == run.plan.header.job_fingerprint
    assert (tally.shards, tally.rows) == (1, Rows(in_=5, good=3, null=1, errors=1))
    assert tally.tokens == 3 + 4 + 0 + 2 + 3
    assert sum(tally.shapes.values()) == tally.batches
    assert tally.padded_tokens >= tally.tokens
    assert tally.cost == tally.charged_s > 0
    assert report.price == price
    assert tally.bytes_out == report.file.size_bytes == run.part(0).stat().st_size
    assert tally.bytes_in > 0
    assert all(value is not None for value in tally.seconds.model_dump().values())
    assert report.latency.p50_ms <= report.latency.p99_ms
    written = read_json(run.out / layout.report_path(shard.part), ShardReport)
    assert written == report


def test_without_a_price_a_cost_is_unknown(tiny_run):
    (report,) = tiny_run().compute(0)
    assert report.tally.cost is None
    assert report.cost_per_1k_rows is None


def test_the_footer_holds_the_report_up_to_the_write(tiny_run):
    run = tiny_run()
    (report,) = run.compute(0)
    footer = read_footer_report(run.part(0))
    assert footer.file is None
    assert footer.tally.seconds.write_s is None
    assert footer.tally.rows == report.tally.rows
    assert footer.tally.charged_s <= report.tally.charged_s
    same = {"file", "tally"}
    assert footer.model_dump(exclude=same) == report.model_dump(exclude=same)


def test_the_ledger_knows_the_shards_seconds(tiny_run):
    run = tiny_run()
    reports = run.compute(0, 1)
    ledger = run.place.ledger
    assert ledger.shards_s == sum(report.tally.charged_s for report in reports)
    assert ledger.wasted_s == 0


def test_the_second_attempt_at_a_part_is_wasted(tiny_run):
    run = tiny_run()
    run.compute(0)
    before = run.part(0).read_bytes()
    assert run.compute(0) == [None]
    assert run.part(0).read_bytes() == before
    assert run.place.ledger.wasted_s > 0
    assert list(own_tmp(run.out).iterdir()) == []
    report = read_json(run.out / layout.report_path(run.shards[0].part), ShardReport)
    assert report.file.size_bytes == len(before)


def test_dropped_rows_are_listed_and_nulls_stay(tiny_run):
    run = tiny_run(errors__mode="drop")
    reports = run.compute(0, 1, 2)
    table = read(run, 0, 1, 2)
    assert table.column("id").to_pylist() == [0, 1, 2, 3, 5, 7, 9, 0, 1, 2, 3]
    assert set(table.column("headrace_error").to_pylist()) == {None, NULL}
    assert reports[0].tally.rows == Rows(in_=5, good=3, null=1, errors=1)
    assert len(list((run.out / layout.ERRORS).iterdir())) == 2


def test_guilty_rows_are_listed_by_place_and_never_by_content(tiny_run):
    run = tiny_run()
    run.compute(1)
    (commit_file,) = (run.out / layout.COMMITS).iterdir()
    record = read_json(commit_file, CommitRecord)
    path = run.out / layout.errors_path(run.shards[1].part, record.errors_sha256)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"file": "0.parquet", "row_group": 1, "row": 1, "reason": NAN},
        {"file": "0.parquet", "row_group": 1, "row": 3, "reason": NAN},
    ]


def test_guilty_rows_are_listed_with_their_texts_where_the_job_says_so(tiny_run):
    """Also where the output does not keep the column."""
    run = tiny_run(errors__keep_input=True, output__columns=["id"])
    run.compute(1)
    (listed,) = (run.out / layout.ERRORS).iterdir()
    inputs = [json.loads(line)["input"] for line in listed.read_text().splitlines()]
    assert inputs == [{"text": "nan"}, {"text": "mud"}]


def test_nothing_of_a_row_or_an_exception_is_written_outside_the_data(tiny_run):
    run = tiny_run()
    run.compute(0, 1, 2)
    for file in (run.out / layout.HOME).rglob("*.json*"):
        assert "secret" not in file.read_text()
        assert "boom" not in file.read_text()


def test_output_columns_narrow_what_is_kept(tiny_run):
    run = tiny_run(output__columns=["id"])
    run.compute(0)
    assert read(run, 0).column_names == ["id", "embedding", "headrace_error"]


def test_no_column_need_be_kept(tiny_run):
    run = tiny_run(output__columns=[])
    run.compute(0)
    assert read(run, 0).column_names == ["embedding", "headrace_error"]
    assert read(run, 0).num_rows == 5


def test_several_text_columns_are_joined(tiny_run, tmp_path):
    table = pa.table({"a": ["one", None, None, "two"], "b": ["two", "three", None, ""]})
    pq.write_table(table, tmp_path / "pairs.parquet")
    run = tiny_run(input__path=str(tmp_path / "pairs.parquet"), input__text=["a", "b"])
    run.compute(0)
    found = read(run, 0)
    module = run.place.forward.module
    for row, text in zip(found.to_pylist(), ["one two", "three", None, "two "], strict=True):
        if text is None:
            assert (row["embedding"], row["headrace_error"]) == (None, NULL)
        else:
            np.testing.assert_allclose(row["embedding"], module.vector(text), atol=1e-6)


def test_a_bad_byte_costs_its_own_row_and_stays_in_the_output(tiny_run, tmp_path):
    raw = pa.array([b"one", b"\xff", None]).view(pa.string())
    pq.write_table(pa.table({"text": raw}), tmp_path / "bytes.parquet")
    run = tiny_run(input__path=str(tmp_path / "bytes.parquet"))
    (report,) = run.compute(0)
    assert report.tally.rows == Rows(in_=3, good=1, null=1, errors=1)
    table = read(run, 0)
    assert table.column("headrace_error").to_pylist() == [
        None,
        "UnicodeDecodeError in preprocess",
        NULL,
    ]
    assert table.column("text").cast(pa.binary()).to_pylist() == [b"one", b"\xff", None]


def test_an_empty_input_gives_one_part_with_the_schema(tiny_run, tmp_path):
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "none.parquet")
    run = tiny_run(input__path=str(tmp_path / "none.parquet"))
    (report,) = run.compute(0)
    assert report.tally.rows == Rows()
    assert report.latency is None
    assert read(run, 0).schema.names == ["text", "embedding", "headrace_error"]


def test_a_shard_of_nulls_runs_no_batch(tiny_run, tmp_path):
    pq.write_table(pa.table({"text": pa.array([None] * 3, pa.string())}), tmp_path / "n.parquet")
    run = tiny_run(input__path=str(tmp_path / "n.parquet"))
    (report,) = run.compute(0)
    assert report.tally.rows == Rows(in_=3, null=3)
    assert report.tally.batches == 0


def test_a_hopeless_shard_writes_nothing_and_is_wasted(tiny_run, tmp_path):
    pq.write_table(pa.table({"text": ["boom"] * 70}), tmp_path / "bad.parquet")
    run = tiny_run(input__path=str(tmp_path / "bad.parquet"), shards__target_rows=100)
    with pytest.raises(ShardError, match="64"):
        run.compute(0)
    assert not run.part(0).exists()
    assert run.place.ledger.wasted_s > 0
    assert run.place.ledger.shards_s == 0


def test_a_retry_gives_the_same_data(tiny_run):
    run = tiny_run()
    run.compute(1)
    first = read(run, 1)
    batches = list(run.place.forward.module.batches)
    run.place.forward.module.batches.clear()
    run.part(1).unlink()
    run.compute(1)
    assert read(run, 1).equals(first)
    assert run.place.forward.module.batches == batches


def test_input_that_vanished_is_an_error_of_the_machine(tiny_run):
    run = tiny_run()
    for file in run.place.source.base.iterdir():
        file.unlink()
    with pytest.raises(OSError, match=r"0\.parquet"):
        run.compute(0)
    assert not run.part(0).exists()


def test_steps_and_prompt_change_what_the_model_reads_and_not_the_column(tiny_run):
    run = tiny_run(preprocess=[{"replace": {"find": "boom", "with": " "}}, "strip", "drop_empty"])
    texts = dataclasses.replace(run.place.texts, prompt="four ")
    place = dataclasses.replace(run.place, texts=texts)
    process_shard(run.shards[0], 1, place)
    table = read(run, 0)
    assert table.column("text").to_pylist() == ["one", "two three", None, "", "boom"]
    assert table.column("headrace_error").to_pylist() == [None, None, NULL, NULL, NULL]
    module = run.place.forward.module
    np.testing.assert_allclose(table["embedding"][0].as_py(), module.vector("four one"), atol=1e-6)
