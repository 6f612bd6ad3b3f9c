import os
from pathlib import Path

import pytest

from headrace.schemas.errors import JobError
from headrace.schemas.job import InputSpec
from headrace.stages.listing import list_input, partitions_of

ELSEWHERE = Path("/elsewhere")


def spec(path, **options):
    return InputSpec(path=str(path), text="text", **options)


@pytest.fixture
def touch(tmp_path):
    """Make empty files: listing never opens one."""

    def make(*names):
        for name in names:
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        return tmp_path

    return make


def names(path, out="/elsewhere/out"):
    base, listed = list_input(spec(path), Path(out))
    assert [entry.file for entry in listed] == [base / entry.relative for entry in listed]
    return base, [entry.relative for entry in listed]


def test_a_file_is_listed_whatever_its_name(touch):
    folder = touch("data/_odd.pq", "data/other.parquet")
    assert names(folder / "data/_odd.pq") == (folder / "data", ["_odd.pq"])


def test_a_folder_is_walked_in_the_order_of_the_paths(touch):
    folder = touch("in/b.parquet", "in/a/z.parquet", "in/a/y.parquet", "in/c/d/e.parquet")
    expected = ["a/y.parquet", "a/z.parquet", "b.parquet", "c/d/e.parquet"]
    assert names(folder / "in") == (folder / "in", expected)


def test_only_visible_parquet_files_of_a_folder_count(touch):
    folder = touch(
        "in/a.parquet",
        "in/_SUCCESS",
        "in/readme.md",
        "in/_b.parquet",
        "in/.c.parquet",
        "in/_temporary/d.parquet",
        "in/.cache/e.parquet",
        "in/ok/_f/g.parquet",
    )
    assert names(folder / "in")[1] == ["a.parquet"]


def test_a_hidden_folder_may_be_named_itself(touch):
    folder = touch("_in/a.parquet", ".in/b.parquet")
    assert names(folder / "_in")[1] == ["a.parquet"]
    assert names(folder / ".in")[1] == ["b.parquet"]


def test_spark_folders_that_end_like_files_are_walked(touch):
    folder = touch("in/x.parquet/part-0.parquet")
    assert names(folder / "in")[1] == ["x.parquet/part-0.parquet"]


def test_hive_folders_give_their_values_outermost_first(touch):
    folder = touch("in/year=2024/day=01/a.parquet", "in/year=2025/b=c=d/e.parquet")
    _, listed = list_input(spec(folder / "in"), ELSEWHERE)
    assert [entry.partitions for entry in listed] == [
        (("year", "2024"), ("day", "01")),
        (("year", "2025"), ("b", "c=d")),
    ]


def test_a_hive_folder_that_is_the_input_itself_adds_nothing(touch):
    folder = touch("in/year=2024/a.parquet")
    _, listed = list_input(spec(folder / "in/year=2024"), ELSEWHERE)
    assert [entry.partitions for entry in listed] == [()]


def test_a_glob_matches_within_a_folder(touch):
    folder = touch("in/a1.parquet", "in/a2.parquet", "in/b.parquet", "in/_a3.parquet")
    assert names(folder / "in/a*.parquet") == (folder / "in", ["a1.parquet", "a2.parquet"])
    assert names(folder / "in/*.parquet")[1] == ["a1.parquet", "a2.parquet", "b.parquet"]


def test_two_stars_match_any_depth_and_keep_hive_folders(touch):
    folder = touch(
        "in/top.parquet",
        "in/year=1/a.parquet",
        "in/year=1/x/b.parquet",
        "in/_no/c.parquet",
        "in/.no/d.parquet",
        "in/year=1/e.csv",
    )
    base, listed = list_input(spec(folder / "in/**/*.parquet"), ELSEWHERE)
    assert base == folder / "in"
    assert [entry.relative for entry in listed] == [
        "top.parquet",
        "year=1/a.parquet",
        "year=1/x/b.parquet",
    ]
    assert listed[1].partitions == (("year", "1"),)


def test_a_glob_does_not_list_folders(touch):
    folder = touch("in/a.parquet", "in/b/part-0.parquet")
    assert names(folder / "in/*")[1] == ["a.parquet"]


def test_a_folder_of_parquet_files_that_a_glob_matches_is_not_passed_over(touch):
    folder = touch("in/a.parquet", "in/b.parquet/part-0.parquet")
    with pytest.raises(JobError, match=r"matches the folder .*/in/b\.parquet.* end the glob with"):
        names(folder / "in/*.parquet")
    assert names(folder / "in/**/*.parquet")[1] == ["a.parquet", "b.parquet/part-0.parquet"]


def test_a_broken_link_is_listed_and_left_to_the_reader_of_footers(touch):
    folder = touch("in/a.parquet")
    (folder / "in/b.parquet").symlink_to("gone")
    assert (
        names(folder / "in")[1] == names(folder / "in/*.parquet")[1] == ["a.parquet", "b.parquet"]
    )


def test_a_name_that_is_no_utf_8_is_refused_by_its_bytes(touch):
    folder = touch("in/a.parquet")
    (folder / "in" / os.fsdecode(b"caf\xe9.parquet")).touch()
    with pytest.raises(JobError, match=r"file names in UTF-8, got b'caf\\xe9\.parquet'"):
        names(folder / "in")


def test_a_folder_that_can_not_be_listed_is_not_passed_over(touch, monkeypatch):
    folder = touch("in/a.parquet", "in/locked/b.parquet")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(JobError, match=r"read the folder .*locked, got: Permission denied"):
        names(folder / "in")


def test_a_folder_named_like_a_glob_is_a_folder(touch):
    folder = touch("in[1]/a.parquet", "in1/b.parquet")
    assert names(folder / "in[1]") == (folder / "in[1]", ["a.parquet"])


def test_a_relative_path_starts_at_the_current_folder(touch, monkeypatch):
    folder = touch("in/a.parquet")
    monkeypatch.chdir(folder)
    assert names("in") == (folder / "in", ["a.parquet"])


@pytest.mark.parametrize("path", ["nothing", "empty", "empty/*.parquet", "nothing/**/*.parquet"])
def test_an_input_without_files_is_refused(touch, path):
    folder = touch("empty/readme.md")
    with pytest.raises(JobError, match=r"input\.path: expected"):
        list_input(spec(folder / path), ELSEWHERE)


@pytest.mark.parametrize("out", ["in", "in/out", "in/deep/er/out", "in/../in/out"])
def test_an_output_inside_the_input_is_refused(touch, out):
    folder = touch("in/a.parquet")
    with pytest.raises(JobError, match=r"output\.path: expected a folder outside"):
        list_input(spec(folder / "in"), folder / out)


@pytest.mark.parametrize("out", ["out", "in-out", "in2"])
def test_an_output_beside_the_input_is_fine(touch, out):
    folder = touch("in/a.parquet")
    assert names(folder / "in", folder / out)[1] == ["a.parquet"]


@pytest.mark.parametrize(
    "pattern", ["in/**/*.parquet", "in/**", "in/*/*.parquet", "in/o*/part-*.parquet"]
)
def test_a_glob_that_would_match_the_results_is_refused(touch, pattern):
    """Else the second run takes the first one's results for new input and stops with exit 5."""
    folder = touch("in/a.parquet", "in/old/part-a.parquet")
    with pytest.raises(JobError, match=r"output\.path"):
        list_input(spec(folder / pattern), folder / "in/out")


def test_a_glob_that_can_not_match_the_results_is_fine(touch):
    folder = touch("in/a.parquet")
    assert names(folder / "in/*.parquet", folder / "in/out")[1] == ["a.parquet"]


def test_hive_folders_give_text_as_it_is():
    path = (
        "day=01/x/when=2024-01-01 00%3A00/to=%C3%9F%25/none=__HIVE_DEFAULT_PARTITION__/e=/a=b=c/f"
    )
    assert partitions_of(path) == (
        ("day", "01"),
        ("when", "2024-01-01 00:00"),
        ("to", "ß%"),
        ("none", None),
        ("e", ""),
        ("a", "b=c"),
    )
    assert partitions_of("100%/=x/a%3Db=1/a=b.parquet") == (("a=b", "1"),)


@pytest.mark.parametrize(
    ("path", "words"),
    [("day=%FF/f", "percent-encoded UTF-8"), ("day=1/day=2/f", "'day' once in a path")],
)
def test_hive_folders_that_tell_no_value_are_refused(path, words):
    with pytest.raises(JobError, match=words):
        partitions_of(path)
