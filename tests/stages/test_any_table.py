"""Random datasets through all stages: what goes in comes out, whatever types, groups and files."""

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.stages.verify import verify

WORDS = ["one", "two three", "", None, "boom", "nan", "mud four", "x" * 50]
LEAVES = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=5),
    pa.large_string(): st.text(max_size=5),
    pa.string_view(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=5),
    pa.binary(2): st.binary(min_size=2, max_size=2),
    pa.decimal128(9, 2): st.decimals(-9_999_999, 9_999_999, places=2),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.duration("us"): st.timedeltas(),
    pa.timestamp("us"): st.datetimes(),
    pa.null(): st.none(),
}


def nested(children):
    """Lists, structs and maps of what is there already."""
    return st.one_of(
        children.map(pa.list_),
        children.map(pa.large_list),
        children.map(lambda kind: pa.list_(kind, 2)),
        st.lists(children, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{at}", kind) for at, kind in enumerate(kinds)])
        ),
        children.map(lambda kind: pa.map_(pa.string(), kind)),
    )


# pyarrow 26 does not write nested views in several row groups, so views stand alone.
VIEW, DICTIONARY = pa.string_view(), pa.dictionary(pa.int32(), pa.string())
KINDS = st.recursive(
    st.sampled_from(sorted(LEAVES.keys() - {VIEW}, key=str)), nested, max_leaves=4
) | st.sampled_from([VIEW, DICTIONARY])


def values(kind):
    """Any value of a type, or null."""
    if pa.types.is_dictionary(kind):
        return st.none() | st.sampled_from(["a", "b", ""])
    if pa.types.is_fixed_size_list(kind):
        return st.none() | st.lists(values(kind.value_type), min_size=2, max_size=2)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return st.none() | st.lists(values(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({f.name: values(f.type) for f in kind})
    if pa.types.is_map(kind):
        pairs = st.tuples(st.text(max_size=2), values(kind.item_type))
        return st.none() | st.lists(pairs, max_size=2)
    return st.none() | LEAVES[kind]


@st.composite
def datasets(draw):
    """Files as (table, rows of a row group); a file may lack a column or have it all null."""
    kinds = {f"c{at}": kind for at, kind in enumerate(draw(st.lists(KINDS, max_size=3)))}
    files = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.integers(0, 12))
        texts = draw(st.lists(st.sampled_from(WORDS), min_size=rows, max_size=rows))
        columns = {"text": pa.array(texts, pa.string())}
        for name, kind in kinds.items():
            state = draw(st.sampled_from(["full", "full", "null", "missing"]))
            if state == "full":
                given_values = draw(st.lists(values(kind), min_size=rows, max_size=rows))
                columns[name] = pa.array(given_values, kind)
            elif state == "null":
                columns[name] = pa.nulls(rows)
        names = draw(st.permutations(sorted(columns)))
        files.append((pa.table({n: columns[n] for n in names}), draw(st.integers(1, 12))))
    return files


def check(run_over, files):
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "in").mkdir()
        for at, (table, group_rows) in enumerate(files):
            pq.write_table(table, folder / f"in/{at}.parquet", row_group_size=group_rows)
        run = run_over(folder)
        reports = run.compute(*range(len(run.shards)))
        run.succeed()
        schema = run.plan.header.dataset_schema
        parts = [pq.read_table(run.part(at)) for at in range(len(run.shards))]
        rows = [row for part in parts for row in part.select(schema.names).to_pylist()]
        expected = [
            {name: row.get(name) for name in schema.names}
            for table, _ in files
            for row in table.to_pylist()
        ]
        assert repr(rows) == repr(expected)  # NaN is NaN, and -0.0 is not 0.0
        assert all(part.schema.equals(parts[0].schema, check_metadata=True) for part in parts)
        total = sum((report.tally.rows for report in reports[1:]), reports[0].tally.rows)
        assert total.in_ == len(expected)
        assert total.adds_up
        assert verify(run.out).faults == ()
    finally:
        shutil.rmtree(folder)


QUICK = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=400)


@QUICK
@given(files=datasets())
def test_a_random_dataset_comes_out_as_it_went_in(run_over, files):
    check(run_over, files)


@pytest.mark.slow
@LONG
@given(files=datasets())
def test_many_random_datasets_come_out_as_they_went_in(run_over, files):
    check(run_over, files)
