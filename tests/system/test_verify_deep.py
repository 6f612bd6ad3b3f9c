"""`headrace verify --deep`: what hides behind checksums that hold."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from cli_support import demo_rows, tiny, write_job
from every_type import ROWS, every_type

import headrace as hr
from headrace.schemas import layout
from headrace.schemas.errors import JobError
from headrace.stages.commit import CommitRecord, commit
from headrace.stages.encode import encode
from headrace.stages.holding import read_footer_report
from headrace.stages.store import file_sha256, own_tmp, read_json


def token_rows(count):
    """Rows of the demo, one of which is null and some of which fail."""
    table = demo_rows(count, every=7)
    texts = table["text"].to_pylist()
    texts[3] = None
    return table.set_column(2, table.schema.field("text"), pa.array(texts))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick_in):
    """Run a job once; what it gives is copied for whoever changes it."""
    made = {}

    def run(name, table, **sections):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            job = write_job(folder, table, **sections)
            done = quick_in(folder).run(job)
            assert done.rc == 0, done.stderr
            made[name] = folder
        return made[name]

    return run


@pytest.fixture
def plain(finished):
    return finished("plain", token_rows(300), model=tiny(raise_on=1997), errors={"max_ratio": 0.9})


def forge(out, change, at=0):
    """Replace a part by a changed one, with a checksum, a footer and a record that say so."""
    file = sorted(out.glob("part-*"))[at]
    report = read_footer_report(file)
    record = read_json(out / layout.commit_path(file.name, file_sha256(file)), CommitRecord)
    table = change(pq.read_table(file, partitioning=None))
    file.unlink()
    tmp_file = encode(table, own_tmp(out), "zstd", report)
    commit(tmp_file, out, file.name, report, record.errors_sha256, own_tmp(out))
    shutil.rmtree(out / layout.TMP)


def forged(folder, into, change):
    """Copy an output and forge it: the quick proof holds."""
    out = shutil.copytree(folder / "out", into / "copy")
    forge(out, change)
    assert hr.verify(out).ok
    return hr.verify(out, deep=True)


def test_a_true_output_holds_and_says_how_much_was_compared(plain, cli):
    done = cli("verify", plain / "out", "--deep", "--json")
    assert done.rc == 0, done.stdout
    deep = done.json["deep"]
    assert deep["parts"] == 3
    assert deep["rows_compared"] == 300
    assert deep["rows_recomputed"] > 100
    assert deep["lowest_likeness"] > 0.99999
    assert "computed again" in cli("verify", plain / "out", "--deep").stderr
    assert cli("verify", plain / "out", "--json").json["deep"] is None


def test_results_of_other_rows_are_found(plain, tmp_path):
    def swap(table):
        vectors = table["embedding"].combine_chunks()
        turned = pa.concat_arrays([vectors.slice(90), vectors.slice(0, 90)])
        column = pc_if_valid(vectors, turned)
        return table.set_column(table.schema.get_field_index("embedding"), "embedding", column)

    found = forged(plain, tmp_path, swap)
    assert not found.ok
    (fault,) = found.faults
    assert fault.startswith("part-0000000-")
    assert "have other results (lowest cosine" in fault
    assert "run the job again" in fault


def pc_if_valid(vectors, other):
    """Take the other vectors where both are there, so that only contents change."""
    import pyarrow.compute as pc

    return pc.if_else(pc.and_(vectors.is_valid(), other.is_valid()), other, vectors)


def test_a_kept_column_that_is_not_the_inputs_is_found(plain, tmp_path):
    def change(table):
        ids = table.column(0).to_pylist()
        ids[7], ids[8] = ids[8], ids[7]
        return table.set_column(0, table.schema.field(0), pa.array([*ids], table.schema.types[0]))

    found = forged(plain, tmp_path, change)
    (fault,) = found.faults
    assert "is not that of the input" in fault


def test_dropped_rows_are_left_out_on_both_sides(finished):
    folder = finished(
        "drop",
        token_rows(200),
        model=tiny(raise_on=1997),
        errors={"mode": "drop", "max_ratio": 0.9},
    )
    found = hr.verify(folder / "out", deep=True)
    assert found.ok, found.faults
    assert found.rows.errors > 0
    assert found.deep.rows_compared == 200 - found.rows.errors


def test_columns_of_every_type_are_compared_bit_for_bit(finished):
    columns = every_type()
    table = pa.table(columns).append_column("text", demo_rows(ROWS)["text"])
    folder = finished("types", table, model=tiny(), shards={"target_rows": 4})
    found = hr.verify(folder / "out", deep=True)
    assert found.ok, found.faults
    assert found.deep.rows_compared == ROWS


@pytest.mark.parametrize("kind", ["one", "many"])
def test_classes_are_compared(finished, classifier, multi_label_classifier, kind, tmp_path):
    path = str(classifier if kind == "one" else multi_label_classifier)
    folder = finished(kind, demo_rows(60), model={"path": path, "task": "classify"})
    found = hr.verify(folder / "out", deep=True)
    assert found.ok, found.faults
    assert found.deep.lowest_likeness > 0.999

    def turn(table):
        names = [name for name in ("label", "score", "labels") if name in table.column_names]
        for name in names:
            column = table[name].combine_chunks()
            turned = pa.concat_arrays([column.slice(1), column.slice(0, 1)])
            table = table.set_column(table.schema.get_field_index(name), name, turned)
        return table

    assert not forged(folder, tmp_path, turn).ok


def test_another_model_or_no_input_is_said_so(finished, tmp_path):
    folder = finished("moved", demo_rows(50), model=tiny())
    out = shutil.copytree(folder / "out", tmp_path / "copy")
    plan = out / layout.PLAN
    content = json.loads(plan.read_text())
    content["job_fields"]["model.digest"] = "another"
    plan.write_text(json.dumps(content))
    with pytest.raises(JobError, match="--deep: expected the model that the output was made with"):
        hr.verify(out, deep=True)
    kept = folder / "in.parquet"
    job = yaml.safe_load((folder / "job.yaml").read_text())
    assert job["input"]["path"] == str(kept)
    kept.rename(tmp_path / "away.parquet")
    try:
        with pytest.raises(JobError, match=r"input\.path"):
            hr.verify(folder / "out", deep=True)
    finally:
        (tmp_path / "away.parquet").rename(kept)
