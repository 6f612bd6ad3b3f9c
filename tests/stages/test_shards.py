from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.job import ShardSpec
from headrace.schemas.plan import InputFile, Slice
from headrace.stages.footer import Footer, RowGroup
from headrace.stages.listing import Listed
from headrace.stages.shards import cut_shards, slices_digest

BIG = 10**9


def footer(name, *groups):
    """Describe a file by its row groups: rows, or (rows, bytes)."""
    sizes = [
        RowGroup(*group) if isinstance(group, tuple) else RowGroup(group, 0) for group in groups
    ]
    rows = sum(group.rows for group in sizes)
    file = InputFile(path=name, size_bytes=1, footer_sha256="f", rows=rows)
    return Footer(Listed(Path(name), name, ()), file, pa.schema([]), tuple(sizes))


def cut(*footers, rows=BIG, size=BIG, limit=None, fingerprint="f"):
    spec = ShardSpec(target_rows=rows, target_bytes=size)
    return cut_shards(footers, spec, limit, fingerprint)


def as_rows(shards):
    """Spell out every row as (file, row group, row), shard by shard."""
    return [
        [(piece.path, piece.row_group, piece.row_start + at) for at in range(piece.rows)]
        for shard in shards
        for piece in shard.slices
    ]


def slices(shards):
    return [[(p.path, p.row_group, p.row_start, p.rows) for p in s.slices] for s in shards]


def test_whole_row_groups_are_taken_greedily():
    shards = cut(footer("a", 4, 4, 4, 4, 4), rows=10)
    assert slices(shards) == [
        [("a", 0, 0, 4), ("a", 1, 0, 4)],
        [("a", 2, 0, 4), ("a", 3, 0, 4)],
        [("a", 4, 0, 4)],
    ]
    assert [shard.index for shard in shards] == [0, 1, 2]


def test_a_shard_spans_files():
    shards = cut(footer("a", 3), footer("b", 3), footer("c", 3), rows=6)
    assert slices(shards) == [[("a", 0, 0, 3), ("b", 0, 0, 3)], [("c", 0, 0, 3)]]


def test_a_row_group_is_cut_only_if_it_is_larger_than_the_target():
    shards = cut(footer("a", 5, 25, 5), rows=10)
    assert slices(shards) == [
        [("a", 0, 0, 5)],
        [("a", 1, 0, 10)],
        [("a", 1, 10, 10)],
        [("a", 1, 20, 5), ("a", 2, 0, 5)],
    ]


def test_a_row_group_that_just_fits_is_not_cut():
    assert slices(cut(footer("a", (10, 100)), rows=10, size=100)) == [[("a", 0, 0, 10)]]


def test_bytes_bound_a_shard_too():
    shards = cut(footer("a", (10, 60), (10, 40), (10, 1)), size=100)
    assert slices(shards) == [[("a", 0, 0, 10), ("a", 1, 0, 10)], [("a", 2, 0, 10)]]
    shards = cut(footer("a", (10, 100)), size=35)
    assert [shard.rows for shard in shards] == [3, 3, 3, 1]


def test_a_row_larger_than_the_target_gets_a_shard_of_its_own():
    shards = cut(footer("a", (3, 3_000), (1, 1)), size=100)
    assert [shard.rows for shard in shards] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1, [[("a", 0, 0, 1)]]),
        (5, [[("a", 0, 0, 4), ("a", 1, 0, 1)]]),
        (8, [[("a", 0, 0, 4), ("a", 1, 0, 4)]]),
        (9, [[("a", 0, 0, 4), ("a", 1, 0, 4)], [("b", 0, 0, 1)]]),
        (12, [[("a", 0, 0, 4), ("a", 1, 0, 4)], [("b", 0, 0, 4)]]),
        (99, [[("a", 0, 0, 4), ("a", 1, 0, 4)], [("b", 0, 0, 4)]]),
    ],
)
def test_a_limit_takes_the_first_rows_and_cuts_a_row_group(limit, expected):
    assert slices(cut(footer("a", 4, 4), footer("b", 4), rows=8, limit=limit)) == expected


def test_a_limit_may_cut_the_middle_of_a_row_group():
    assert slices(cut(footer("a", 25), rows=10, limit=17)) == [
        [("a", 0, 0, 10)],
        [("a", 0, 10, 7)],
    ]


@pytest.mark.parametrize("footers", [[footer("a")], [footer("a", 0, 0), footer("b", 0)]])
def test_an_empty_input_gives_one_empty_shard(footers):
    (shard,) = cut(*footers)
    assert (shard.index, shard.slices, shard.rows) == (0, (), 0)


def test_ids_depend_on_content_and_fingerprint_only():
    files = [footer("a", 4, 4), footer("b", 4)]
    ids = [shard.id for shard in cut(*files, rows=4)]
    assert len(set(ids)) == 3
    assert all(len(shard_id) == 8 and int(shard_id, 16) >= 0 for shard_id in ids)
    assert ids == [shard.id for shard in cut(*files, rows=4)]
    assert not set(ids) & {shard.id for shard in cut(*files, rows=4, fingerprint="g")}
    renamed = cut(footer("a", 4, 4), footer("c", 4), rows=4)
    assert [shard.id for shard in renamed][:2] == ids[:2]
    assert renamed[2].id != ids[2]


def test_the_digest_of_slices_sees_every_field():
    base = (Slice("a", 0, 0, 4),)
    others = (Slice("b", 0, 0, 4), Slice("a", 1, 0, 4), Slice("a", 0, 1, 4), Slice("a", 0, 0, 5))
    (shard,) = cut(footer("a", 4))
    changed = [type(shard)(shard.index, shard.id, (piece,)) for piece in others]
    digests = {slices_digest([each]) for each in (shard, *changed)}
    assert shard.slices == base
    assert len(digests) == 5
    assert slices_digest([shard, changed[0]]) != slices_digest([changed[0], shard])


GROUPS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 400)), max_size=5)


@given(
    files=st.lists(GROUPS, min_size=1, max_size=4),
    rows=st.integers(1, 40),
    size=st.integers(1, 500),
    limit=st.none() | st.integers(1, 200),
)
def test_every_row_comes_once_in_order_and_no_shard_is_too_large(files, rows, size, limit):
    footers = [footer(f"{at}.parquet", *groups) for at, groups in enumerate(files)]
    shards = cut(*footers, rows=rows, size=size, limit=limit)
    expected = [
        (f"{at}.parquet", group, row)
        for at, groups in enumerate(files)
        for group, (count, _) in enumerate(groups)
        for row in range(count)
    ]
    assert [row for part in as_rows(shards) for row in part] == expected[:limit]
    assert len({shard.id for shard in shards}) == len(shards)

    def group_of(piece):
        return files[int(piece.path[0])][piece.row_group]

    def weigh(piece):
        group_rows, group_bytes = group_of(piece)
        return group_bytes * piece.rows // group_rows

    for shard in shards:
        assert shard.rows <= rows
        assert sum(map(weigh, shard.slices)) <= size or shard.rows == 1
        for piece in shard.slices:
            group_rows, group_bytes = group_of(piece)
            too_large = group_rows > rows or group_bytes > size
            assert piece.rows == group_rows or too_large or limit is not None
    for before, after in pairwise(shards):
        first = after.slices[0]
        fits = before.rows + first.rows <= rows
        fits = fits and sum(map(weigh, before.slices)) + weigh(first) <= size
        assert not fits, "the shard before had room for it"


def test_real_footers_can_be_cut(tmp_path, footers_of):
    (tmp_path / "in").mkdir()
    for name, count in (("a", 7), ("b", 5)):
        table = pa.table({"text": [f"{name}{at}" for at in range(count)]})
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet", row_group_size=4)
    _, footers = footers_of(tmp_path / "in")
    shards = cut(*footers, rows=8)
    assert slices(shards) == [
        [("a.parquet", 0, 0, 4), ("a.parquet", 1, 0, 3)],
        [("b.parquet", 0, 0, 4), ("b.parquet", 1, 0, 1)],
    ]
