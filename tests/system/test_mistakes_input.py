"""Mistakes in the input: one message each, and nothing touched."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mistake_support import check, tiny_job


@pytest.fixture
def job(tmp_path, tiny_model):
    return tiny_job(tmp_path, tiny_model)


def no_parquet(folder):
    (folder / "data").mkdir()
    (folder / "data/a.csv").write_text("id\n1\n")


def no_file_of(data):
    def make(folder):
        (folder / "data").mkdir()
        (folder / "in.parquet").rename(folder / "data/a.parquet")
        (folder / "data/b.parquet").write_bytes(data(folder / "data/a.parquet"))

    return make


def odd_name(folder):
    no_file_of(lambda whole: whole.read_bytes())(folder)
    (folder / "data/b.parquet").rename(folder / "data" / os.fsdecode(b"caf\xe9.parquet"))


def broken_link(folder):
    (folder / "data").mkdir()
    (folder / "data/a.parquet").symlink_to("gone")


def folder_like_a_file(folder):
    (folder / "data/x.parquet").mkdir(parents=True)


def loop(folder):
    no_file_of(lambda whole: whole.read_bytes())(folder)
    (folder / "data/again").symlink_to(".")


def unreadable(folder):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    no_file_of(lambda whole: whole.read_bytes())(folder)
    (folder / "data/b.parquet").chmod(0)


def column_like_ours(folder):
    no_file_of(lambda whole: whole.read_bytes())(folder)
    for name in "ab":
        table = pq.read_table(folder / f"data/{name}.parquet")
        pq.write_table(
            table.append_column("embedding", table["text"]), folder / f"data/{name}.parquet"
        )


def two_types(folder):
    no_file_of(lambda whole: whole.read_bytes())(folder)
    table = pq.read_table(folder / "data/b.parquet")
    pq.write_table(
        table.set_column(0, "headword", pa.nulls(20, pa.date32())), folder / "data/b.parquet"
    )


INPUTS = [
    ("no Parquet file", no_parquet, ("expected Parquet files (*.parquet), and found none",)),
    ("an empty file", no_file_of(lambda _: b""), ("expected a Parquet file", "b.parquet", "leave")),
    (
        "a truncated file",
        no_file_of(lambda whole: whole.read_bytes()[:-100]),
        ("expected a Parquet file", "b.parquet", "Restore the file"),
    ),
    ("no Parquet inside", no_file_of(lambda _: b"id,text\n1,a\n"), ("expected a Parquet file",)),
    ("a broken link", broken_link, ("a.parquet", "No such file", "leave it out")),
    ("a folder like a file", folder_like_a_file, ("expected Parquet files", "found none")),
    ("a name that is no UTF-8", odd_name, ("expected file names in UTF-8", "b'caf\\xe9.parquet'")),
    ("a loop of links", loop, ("without a loop", "data/again", "Remove the symbolic link")),
    ("an unreadable file", unreadable, ("b.parquet", "Permission denied")),
    ("a column named like ours", column_like_ours, ("expected no input column named 'embedding'",)),
    (
        "two types of a column",
        two_types,
        ("that loses nothing", "'headword'", "a.parquet", "b.parquet"),
    ),
]


@pytest.mark.parametrize(("make", "words"), [row[1:] for row in INPUTS], ids=[r[0] for r in INPUTS])
def test_an_input(tmp_path, job, make, words):
    make(tmp_path)
    check(tmp_path, ("run", job, "--no-prefect", "--set", "input.path=data"), 2, words)


def test_a_glob_of_folders(tmp_path, job):
    folder_like_a_file(tmp_path)
    args = ("run", job, "--no-prefect", "--set", "input.path=data/*.parquet")
    check(tmp_path, args, 2, ("matches the folder", "data/x.parquet", "end the glob with /**"))
