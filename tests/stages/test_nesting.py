from pathlib import Path

import pytest

from headrace.schemas.errors import JobError
from headrace.schemas.job import InputSpec
from headrace.stages.listing import list_input
from headrace.stages.nesting import refuse_nesting

INSIDE = r"output\.path: expected a folder outside the input"
AROUND = r"output\.path: expected a folder that does not hold the input"


@pytest.fixture
def folder(tmp_path):
    """`in/a.parquet`, `far/b.parquet`, and links: `in/far` to `far`, `door` to `in`."""
    for name in ("in/a.parquet", "far/b.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "in/far").symlink_to("../far")
    (tmp_path / "door").symlink_to("in")
    return tmp_path


def files_of(folder):
    return [folder / "in/a.parquet", folder / "in/far/b.parquet"]


@pytest.mark.parametrize("out", ["in", "in/out", "door", "door/out", "far/out", "in/far/x/out"])
def test_links_do_not_hide_an_output_in_the_input(folder, out):
    with pytest.raises(JobError, match=INSIDE):
        refuse_nesting(folder / "in", files_of(folder), folder / out)


def test_links_do_not_hide_an_input_that_holds_the_output(folder):
    with pytest.raises(JobError, match=INSIDE):
        refuse_nesting(folder / "door", [folder / "door/a.parquet"], folder / "in/out")


@pytest.mark.parametrize("pattern", ["in/*/*.parquet", "door/**/*.parquet", "door/o*/part-*"])
@pytest.mark.parametrize("out", ["in/out", "door/out"])
def test_links_do_not_hide_results_from_a_glob(folder, pattern, out):
    with pytest.raises(JobError, match=INSIDE):
        refuse_nesting(folder / pattern, [folder / "in/a.parquet"], folder / out)


@pytest.mark.parametrize("out", ["", "far", "in"])
def test_an_output_around_the_input_is_refused(folder, out):
    files = [folder / "in/far/b.parquet"] if out == "far" else [folder / "in/a.parquet"]
    with pytest.raises(JobError, match=AROUND):
        refuse_nesting(files[0], files, folder / out)


@pytest.mark.parametrize(
    ("where", "out"),
    [("in", "out"), ("in", "in-out"), ("in/a.parquet", "in/out"), ("in/*.parquet", "in/out")],
)
def test_an_output_beside_the_input_is_fine(folder, where, out):
    refuse_nesting(folder / where, [folder / "in/a.parquet"], folder / out)


@pytest.mark.parametrize("where", ["in", "in/**/*.parquet"])
def test_a_loop_of_links_is_refused_and_not_read_forty_times(folder, where):
    (folder / "in/again").symlink_to(".")
    with pytest.raises(JobError, match=r"without a loop, got .*/in/again"):
        list_input(InputSpec(path=str(folder / where), text="text"), Path("/elsewhere/out"))


def test_links_without_a_loop_are_fine(folder):
    _, listed = list_input(InputSpec(path=str(folder / "in"), text="text"), Path("/elsewhere/out"))
    assert [entry.relative for entry in listed] == ["a.parquet", "far/b.parquet"]
