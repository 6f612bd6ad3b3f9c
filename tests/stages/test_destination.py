import errno

import pytest

from headrace.schemas import layout
from headrace.schemas.errors import JobError
from headrace.stages.destination import (
    made,
    refuse_foreign,
    refuse_to_move,
    refuse_unwritable,
    set_aside,
)
from headrace.stages.store import own_tmp


@pytest.mark.parametrize("out", ["", "out", "deep/er/out", "link/out"])
def test_a_folder_that_can_be_made_is_fine_and_is_not_made(tmp_path, out):
    (tmp_path / "link").symlink_to(".")
    refuse_unwritable(tmp_path / out)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("out", ["file", "file/out", "file/deep/er", "broken", "broken/out"])
def test_what_is_no_folder_is_in_the_way(tmp_path, out):
    (tmp_path / "file").touch()
    (tmp_path / "broken").symlink_to("gone")
    with pytest.raises(JobError, match=r"output\.path: expected a folder, got .* is none"):
        refuse_unwritable(tmp_path / out)


def test_a_place_that_may_not_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(JobError, match=rf"this user may write.*{tmp_path} is read-only"):
        refuse_unwritable(tmp_path / "deep/out")


def test_another_s_folder_is_refused_by_some_of_its_names(tmp_path):
    refuse_foreign(tmp_path / "out")
    refuse_foreign(tmp_path)
    (tmp_path / layout.HOME).mkdir()
    refuse_foreign(tmp_path)  # what a full disk left of us
    for name in "dcba":
        (tmp_path / name).touch()
    with pytest.raises(JobError, match=r"holds \['a', 'b', 'c'\]\. Choose another folder"):
        refuse_foreign(tmp_path)


@pytest.mark.parametrize("model", ["out", "out/model", "door/model"])
def test_the_model_is_not_moved_aside(tmp_path, model):
    (tmp_path / "out/model").mkdir(parents=True)
    (tmp_path / "door").symlink_to("out")
    with pytest.raises(JobError, match="--fresh: expected the model outside"):
        refuse_to_move(tmp_path / "out", tmp_path / model)
    refuse_to_move(tmp_path / "out", tmp_path / "out-model")


def test_an_old_output_is_moved_whole_and_nothing_else_is(tmp_path):
    assert set_aside(tmp_path / "out", "id") is None
    (tmp_path / "out").mkdir()
    assert set_aside(tmp_path / "out", "id") is None
    (tmp_path / "out/part").write_text("data")
    assert set_aside(tmp_path / "out", "id") == tmp_path / "out.replaced-id"
    assert (tmp_path / "out.replaced-id/part").read_text() == "data"
    assert not (tmp_path / "out").exists()


def write_and_fail(out):
    with made(out):
        (own_tmp(out) / "half").write_text("x")
        raise OSError(errno.ENOSPC, "full")


def test_a_folder_that_could_not_be_filled_is_taken_back(tmp_path):
    with pytest.raises(OSError, match="full"):
        write_and_fail(tmp_path / "deep/out")
    assert not (tmp_path / "deep/out").exists()


def test_what_was_there_before_stays(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(OSError, match="full"):
        write_and_fail(out)
    assert list(out.iterdir()) == []
    (out / layout.HOME).mkdir()
    (out / layout.HOME / "plan.json").touch()
    with pytest.raises(OSError, match="full"):
        write_and_fail(out)
    assert [path.name for path in (out / layout.HOME).iterdir()] == ["plan.json"]


def test_a_folder_that_is_filled_stays(tmp_path):
    with made(tmp_path / "out"):
        (tmp_path / "out/part").touch()
    assert (tmp_path / "out/part").exists()
