"""`--limit N`, the first rows as a job of its own, and `--fresh`, which never deletes."""

import pyarrow.parquet as pq
import pytest
from cli_support import demo_rows, read_output, tiny, tree, write_dataset_job


@pytest.fixture
def job(tmp_path):
    """Three files of 40 rows in row groups of 15, read in the order of their names."""
    (tmp_path / "in").mkdir()
    for name in "cab":  # not the order in which they were written
        rows = demo_rows(120).slice(40 * "abc".index(name), 40)
        pq.write_table(rows, tmp_path / f"in/{name}.parquet", row_group_size=15)
    return write_dataset_job(tmp_path, model=tiny())


def test_a_limit_takes_the_first_rows_over_files_and_inside_row_groups(tmp_path, quick, job):
    run = quick.run(job, "--limit", "53", "--set", "shards.target_rows=20")
    assert run.rc == 0, run.stderr
    assert run.json["rows"]["in"] == 53
    out = read_output(tmp_path / "out")
    assert out["text"].to_pylist() == demo_rows(53)["text"].to_pylist()
    assert quick("verify", "out").rc == 0
    before = tree(tmp_path / "out")
    for other in (("--limit", "54"), ()):
        refused = quick.run(job, *other)
        assert refused.rc == 5
        assert "input.limit: the output has 53, the job says " in refused.stderr
    assert tree(tmp_path / "out") == before


def test_a_limit_beyond_the_input_takes_it_all(tmp_path, quick, job):
    run = quick.run(job, "--limit", "1000")
    assert run.rc == 0, run.stderr
    assert read_output(tmp_path / "out")["text"].to_pylist() == demo_rows(120)["text"].to_pylist()


def test_fresh_moves_aside_whatever_is_there_and_deletes_nothing(tmp_path, quick, job):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.txt").write_text("mine")
    kept = [tree(tmp_path / "out")]
    for limit in ("10", "20"):
        run = quick.run(job, "--fresh", "--limit", limit)
        assert run.rc == 0, run.stderr
        assert "moved the old output to" in run.stderr
        assert read_output(tmp_path / "out").num_rows == int(limit)
        aside = sorted(tmp_path.glob("out.replaced-*"), key=lambda path: path.stat().st_mtime_ns)
        assert sorted(map(str, (tree(path) for path in aside))) == sorted(map(str, kept))
        kept.append(tree(tmp_path / "out"))
    assert quick("verify", "out").rc == 0


def test_fresh_without_an_old_output_is_a_plain_run(tmp_path, quick, job):
    run = quick.run(job, "--fresh", "--limit", "5")
    assert run.rc == 0, run.stderr
    assert "moved" not in run.stderr
    assert list(tmp_path.glob("out.replaced-*")) == []
