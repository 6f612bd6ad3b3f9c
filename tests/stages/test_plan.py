import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError, OtherRunError
from headrace.stages.plan import draw_plan, load_plan, restore_plan, versions, write_plan
from headrace.stages.survey import survey


@pytest.fixture
def source(tmp_path):
    """Make an input of two files with fifteen rows in five row groups."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, rows in (("a", 9), ("b", 6)):
        table = pa.table({"text": [f"{name}{at}" for at in range(rows)]})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=3)
    return folder


@pytest.fixture
def look(source, make_job, tiny_model):
    def make(**changes):
        known = {
            "input__path": str(source),
            "model__path": str(tiny_model),
            "shards__target_rows": 4,
        }
        return survey(make_job(**known | changes))

    return make


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def planned(out, look, make_resolved):
    surveyed = look()
    return write_plan(out, draw_plan(surveyed, surveyed.cut(), make_resolved()), surveyed)


def snapshot(folder):
    """Every name below a folder, with what would change if it were written."""
    found = {}
    for parent, folders, names in os.walk(folder):
        for name in folders + names:
            stat = Path(parent, name).stat()
            found[Path(parent, name)] = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    return found


def test_a_plan_survives_the_disk(out, planned):
    loaded = load_plan(out)
    assert loaded == planned
    assert loaded.header.rows == 15
    assert loaded.header.shards == len(loaded.shards) == 5
    assert loaded.header.dataset_schema == pa.schema([("text", pa.string())])
    assert [shard.index for shard in loaded.shards] == list(range(5))


def test_the_plan_of_an_empty_input_survives_too(tmp_path, out, look, make_resolved):
    empty = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), empty)
    surveyed = look(input__path=str(empty))
    plan = write_plan(out, draw_plan(surveyed, surveyed.cut(), make_resolved()), surveyed)
    loaded = load_plan(out)
    assert loaded == plan
    assert [shard.slices for shard in loaded.shards] == [()]
    assert restore_plan(out, surveyed) == plan


def test_the_slices_are_an_ordinary_parquet_file(out, planned):
    table = pq.read_table(out / layout.SLICES)
    assert table.column("rows").to_pylist() == [3] * 5
    assert table.column("path").to_pylist() == ["a.parquet"] * 3 + ["b.parquet"] * 2
    assert table.column("shard_id").to_pylist() == [shard.id for shard in planned.shards]


def test_the_first_plan_holds(out, planned, look, make_resolved):
    surveyed = look(shards__target_rows=15)  # no part of the fingerprint
    written = [(out / name).read_bytes() for name in (layout.PLAN, layout.SLICES)]
    again = write_plan(out, draw_plan(surveyed, surveyed.cut(), make_resolved()), surveyed)
    assert again == planned
    assert [(out / name).read_bytes() for name in (layout.PLAN, layout.SLICES)] == written


def test_a_crash_between_header_and_slices_is_mended(out, planned, look):
    (out / layout.SLICES).unlink()
    assert restore_plan(out, look()) == planned
    assert load_plan(out) == planned


def test_it_is_mended_by_the_cut_of_the_plan_not_of_today_s_job(out, planned, look):
    (out / layout.SLICES).unlink()
    assert restore_plan(out, look(shards__target_rows=15)) == planned
    assert load_plan(out) == planned


def test_slices_that_can_not_be_restored_are_not_guessed(out, planned, look):
    (out / layout.SLICES).unlink()
    text = (out / layout.PLAN).read_text()
    (out / layout.PLAN).write_text(text.replace(planned.header.slices_sha256, "0" * 64))
    with pytest.raises(DamagedError, match="--fresh"):
        restore_plan(out, look())
    assert not (out / layout.SLICES).exists()


def test_another_job_is_refused_by_key_and_both_values(out, planned, look):
    before = snapshot(out)
    with pytest.raises(OtherRunError) as caught:
        restore_plan(out, look(model__max_length=8, errors__mode="drop"))
    text = str(caught.value)
    assert "model.max_length: the output has None, the job says 8" in text
    assert "errors.mode: the output has 'null', the job says 'drop'" in text
    assert "model.task" not in text
    assert "--fresh" in text
    assert snapshot(out) == before


def test_a_changed_input_file_is_named(source, out, planned, look):
    pq.write_table(pa.table({"text": ["b0", "b1"]}), source / "b.parquet")
    before = snapshot(out)
    with pytest.raises(OtherRunError, match=r"b\.parquet") as caught:
        restore_plan(out, look())
    assert "a.parquet" not in str(caught.value)
    assert snapshot(out) == before


def test_a_copy_of_the_input_at_another_place_is_the_same_input(
    source, tmp_path, out, planned, look
):
    copy = tmp_path / "moved" / "in"
    copy.mkdir(parents=True)
    for file in source.iterdir():
        shutil.copyfile(file, copy / file.name)
    assert restore_plan(out, look(input__path=str(copy))) == planned


def test_compute_and_price_may_change_between_runs(out, planned, look):
    changed = look(compute__max_attempts=9, price__per_hour=3.0, errors__max_ratio=1.0)
    assert restore_plan(out, changed) == planned


def test_a_folder_without_a_plan_is_no_output(tmp_path):
    with pytest.raises(DamagedError, match=r"expected the output folder of a headrace run"):
        load_plan(tmp_path)


def test_a_damaged_header_is_named(out, planned, look):
    (out / layout.PLAN).write_text("{")
    for read in (load_plan, lambda folder: restore_plan(folder, look())):
        with pytest.raises(DamagedError, match=r"plan\.json"):
            read(out)


def _truncate(file):
    file.write_bytes(file.read_bytes()[:-9])


def _drop_a_row(file):
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)


def _move_a_row(file):
    table = pq.read_table(file)
    starts = pa.array([1, *table.column("row_start").to_pylist()[1:]], pa.int64())
    pq.write_table(table.set_column(4, "row_start", starts), file)


def _rename_a_shard(file):
    """A part's name holds the id: under another one, committed parts look lost."""
    table = pq.read_table(file)
    ids = pa.array(["00000000", *table.column("shard_id").to_pylist()[1:]])
    pq.write_table(table.set_column(1, "shard_id", ids), file)


def _other_file(file):
    pq.write_table(pa.table({"text": ["one"]}), file)


DAMAGE = [_truncate, _drop_a_row, _move_a_row, _rename_a_shard, _other_file]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damaged_slices_are_refused(out, planned, damage):
    damage(out / layout.SLICES)
    with pytest.raises(DamagedError, match=r"plan-0000\.parquet: expected"):
        load_plan(out)


def test_running_again_restores_damaged_slices(out, planned, look):
    """As the message of `load_plan` promises."""
    _truncate(out / layout.SLICES)
    assert restore_plan(out, look()) == planned
    assert load_plan(out) == planned


def test_the_versions_that_a_result_depends_on_are_noted(planned):
    assert {"python", "headrace", "torch", "transformers", "tokenizers"} <= set(versions())
    assert planned.header.versions == versions()
