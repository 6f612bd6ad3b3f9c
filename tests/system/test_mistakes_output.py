"""An output that can't be used: no folder, somebody else's, on a disk that is full."""

import os
import subprocess

import pytest
from cli_support import demo_rows, read_output, tiny, tree, write_job
from mistake_support import change, check, refused, run_here, snapshot, tiny_job


@pytest.fixture
def job(tmp_path, tiny_model):
    return tiny_job(tmp_path, tiny_model)


@pytest.fixture
def data(tmp_path):
    """The input in a folder of its own, and a link to it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "door").symlink_to("data")
    return tmp_path / "data"


def place(job, tmp_path, path, code, *words):
    check(tmp_path, ("run", job, "--no-prefect", "--set", f"output.path={path}"), code, words)


def test_a_file(tmp_path, job):
    (tmp_path / "out").write_text("mine")
    args = ("run", job, "--no-prefect")
    words = ("output.path: expected a folder", "out is none", "Choose another")
    for flags in ((), ("--fresh",)):
        refused(run_here(tmp_path, *args, "--json", *flags), 2, *words)
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("path", ["/dev/null/out", "job.yaml/deeper/out"])
def test_below_a_file(tmp_path, job, path):
    place(job, tmp_path, path, 2, "output.path: expected a folder", "is none. Choose another one")


def test_a_link_to_nothing(tmp_path, job):
    (tmp_path / "link").symlink_to("gone")
    place(job, tmp_path, "link/out", 2, "output.path: expected a folder", "link is none")


@pytest.mark.parametrize(
    ("source", "out"),
    [("data", "data/out"), ("data", "door/out"), ("door", "data/out"), ("data", "data")],
)
def test_inside_the_input_through_links_too(tmp_path, job, data, source, out):
    (tmp_path / "in.parquet").rename(data / "a.parquet")
    args = ("run", job, "--no-prefect", "--set", f"input.path={source}")
    words = ("output.path: expected a folder outside the input", "Choose another folder")
    check(tmp_path, (*args, "--set", f"output.path={out}"), 2, words)
    assert [file.name for file in data.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("flags", [(), ("--fresh",)])
@pytest.mark.parametrize("source", ["data", "data/a.parquet", "data/*.parquet"])
def test_around_the_input(tmp_path, job, data, source, flags):
    (tmp_path / "in.parquet").rename(data / "a.parquet")
    args = ("run", job, "--no-prefect", *flags, "--set", f"input.path={source}")
    words = ("output.path: expected a folder", "the input", "Choose another folder")
    check(tmp_path, (*args, "--set", f"output.path={tmp_path}"), 2, words)
    assert (data / "a.parquet").is_file()


def test_around_the_model_with_fresh(tmp_path, job, write_model):
    model = write_model(tmp_path / "out/model")
    before = tree(tmp_path / "out")
    args = ("run", job, "--no-prefect", "--fresh", "--set", f"model.path={model}")
    words = ("--fresh: expected the model outside the output folder", "Choose another output.path")
    check(tmp_path, args, 2, words, before)


def test_a_foreign_folder_is_left_alone(tmp_path, job):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.txt").write_text("mine")
    words = ("output.path: expected an empty folder", "['thesis.txt']", "with --fresh")
    check(tmp_path, ("run", job, "--no-prefect"), 2, words, tree(tmp_path / "out"))


def test_a_mistake_that_a_worker_finds_leaves_the_old_output_where_it_is(tmp_path, cli, job):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old.txt").write_text("mine")
    run = cli.run(job, "--fresh", "--set", "model.factory=tiny_models:nope")
    refused(run, 2, "model.factory: expected MODULE:FUNCTION")
    assert [file.name for file in tmp_path.glob("out*")] == ["out"]
    assert list(snapshot(tmp_path / "out")) == ["old.txt"]


def mount(folder, *options):
    """Mount a small disk there; skip where that is not allowed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mount is not allowed here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path):
    """A place to mount on, freed in the end."""
    folder = tmp_path / "disk"
    yield folder
    while os.path.ismount(folder):
        subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_read_only(tmp_path, job, disk):
    mount(disk, "-t", "tmpfs", "-o", "ro", "tmpfs")
    words = ("output.path: expected a folder that this user may write", "read-only", "its rights")
    place(job, tmp_path, disk / "out", 2, *words)


def test_a_folder_that_this_user_may_not_write(tmp_path, job):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (tmp_path / "locked").mkdir(mode=0o500)
    place(job, tmp_path, "locked/out", 2, "expected a folder that this user may write", "read-only")


def test_a_disk_that_is_full_at_once(tmp_path, cli, job, disk):
    mount(disk, "-t", "tmpfs", "-o", "size=4k", "tmpfs")
    change(job, name="long" * 2_000)  # the plan holds it
    run = cli.run(job, "--set", f"output.path={disk / 'out'}")
    refused(run, 1, f"output.path: expected to write in {disk}/out", "No space left on device")
    assert list(disk.rglob("*")) == []


def test_a_disk_that_fills_up_and_is_given_room(tmp_path, cli, disk):
    mount(disk, "-t", "tmpfs", "-o", "size=3m", "tmpfs")
    job = write_job(tmp_path, demo_rows(1_000), model=tiny(dim=2_000))  # 0.8 MB a part
    there = ("--set", f"output.path={disk / 'out'}")
    run = cli.run(job, *there)
    assert run.rc == 3, run.stderr
    assert "Traceback" not in run.stderr
    found = run.json
    assert found["status"] == "failed"
    assert f"expected to write in {disk}/out, got: No space left on device" in found["reason"]
    assert 1 <= found["shards"]["committed"] < 10
    assert found["shards"]["failed"] == []
    out = disk / "out"
    assert list((out / "_headrace/tmp").iterdir()) == []
    whole = read_output(out)
    assert whole.num_rows == found["rows"]["good"] == 100 * found["shards"]["committed"]
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
    faults = cli("verify", out, "--json").json["faults"]
    assert all("missing" in fault or "is not there" in fault for fault in faults), faults
    again = cli.run(job, *there)
    assert again.rc == 0, again.stderr
    assert again.json["shards"]["skipped"] == found["shards"]["committed"]
    assert cli("verify", out).rc == 0
