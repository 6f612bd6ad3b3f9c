import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas.errors import JobError
from headrace.stages.dataset_schema import check_columns, dataset_schema


@pytest.fixture
def unify(tmp_path, footers_of):
    def make(**tables):
        for name, table in tables.items():
            file = tmp_path / "in" / f"{name.replace('__', '/').replace('_is_', '=')}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, file)
        return dataset_schema(footers_of(tmp_path / "in")[1])

    return make


def test_one_file_gives_its_own_schema_with_all_metadata(unify):
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"unit": "none"}),
            pa.field("at", pa.timestamp("us", tz="Europe/Berlin")),
            pa.field("kind", pa.dictionary(pa.int8(), pa.string())),
            pa.field("tags", pa.list_(pa.struct([("a", pa.int32())]))),
        ],
        metadata={"owner": "me"},
    )
    found = unify(a=schema.empty_table())
    assert found.field("id").metadata[b"unit"] == b"none"
    assert found.metadata[b"owner"] == b"me"
    assert found.equals(schema)
    assert not found.field("id").nullable


def test_a_column_that_is_all_null_in_a_file_takes_the_type_of_the_others(unify):
    typed = pa.table({"text": ["one"], "n": pa.array([1], pa.int16())})
    nulls = pa.table({"text": ["two"], "n": pa.nulls(1)})
    assert unify(a=typed, b=nulls).field("n").type == pa.int16()
    assert unify(a=nulls, b=typed).field("n").type == pa.int16()


def test_a_column_that_a_file_lacks_becomes_nullable(unify):
    full = pa.schema([pa.field("text", pa.string(), False), pa.field("n", pa.int64(), False)])
    part = pa.schema([pa.field("text", pa.string(), False)])
    for tables in ({"a": full, "b": part}, {"a": part, "b": full}):
        schema = unify(**{name: each.empty_table() for name, each in tables.items()})
        assert schema.names == ["text", "n"]
        assert schema.field("n").nullable
        assert not schema.field("text").nullable


def test_the_first_file_gives_order_and_metadata(unify):
    first = pa.table({"text": ["one"], "n": [1]}).replace_schema_metadata({"from": "a"})
    second = pa.table({"n": [2], "more": [1.0], "text": ["two"]})
    second = second.replace_schema_metadata({"from": "b"})
    schema = unify(a=first, b=second)
    assert schema.names == ["text", "n", "more"]
    assert schema.metadata[b"from"] == b"a"


def test_files_that_differ_in_nullability_only_are_nullable(unify):
    strict = pa.schema([pa.field("text", pa.string(), nullable=False)]).empty_table()
    loose = pa.schema([pa.field("text", pa.string())]).empty_table()
    assert unify(a=strict, b=loose).field("text").nullable


def test_a_conflict_names_column_types_and_both_files(unify):
    with pytest.raises(JobError) as caught:
        unify(
            a=pa.table({"text": ["one"], "n": [1]}),
            b=pa.table({"text": ["one"], "n": [2]}),
            c=pa.table({"text": ["one"], "n": ["three"]}),
        )
    text = str(caught.value)
    for piece in ("'n'", "int64", "a.parquet", "string", "c.parquet"):
        assert piece in text
    assert "b.parquet" not in text


def test_a_column_that_a_file_has_twice_is_refused_with_the_file(unify):
    twice = pa.table([["one"], [1], [2]], names=["text", "a", "a"])
    with pytest.raises(JobError, match=r"more than once: \['a'\] in .*b\.parquet"):
        unify(a=pa.table({"text": ["one"]}), b=twice)


def test_files_with_types_that_fit_get_the_wider_one(unify):
    narrow = pa.table({"text": ["one"], "n": pa.array([1], pa.int32()), "k": ["a"]})
    wide = pa.table(
        {
            "k": pa.array(["b"]).dictionary_encode(),
            "n": pa.array([2**40], pa.int64()),
            "text": pa.array(["two"], pa.large_string()),
        }
    )
    expected = {"text": pa.large_string(), "n": pa.int64(), "k": pa.string()}
    for tables in ({"a": narrow, "b": wide}, {"a": wide, "b": narrow}):
        schema = unify(**tables)
        assert {name: schema.field(name).type for name in schema.names} == expected


def test_a_conflict_names_the_files_that_disagree_not_those_between(unify):
    with pytest.raises(JobError, match=r"float in .*a\.parquet and int64 in .*c\.parquet"):
        unify(
            a=pa.table({"text": ["one"], "n": pa.array([1.5], pa.float32())}),
            b=pa.table({"text": ["one"], "n": pa.array([1], pa.int32())}),
            c=pa.table({"text": ["one"], "n": pa.array([1], pa.int64())}),
        )


def test_hive_folders_become_text_columns_at_the_end(unify):
    table = pa.table({"text": ["one"]})
    schema = unify(year_is_2024__day_is_01__a=table, year_is_2025__b=table)
    assert schema == pa.schema([("text", pa.string()), ("year", pa.string()), ("day", pa.string())])


def test_a_hive_folder_must_not_hide_a_column(unify):
    with pytest.raises(JobError, match=r"hive folder 'year'"):
        unify(year_is_2024__a=pa.table({"text": ["one"], "year": [2024]}))


def test_a_hive_folder_must_not_hide_a_column_of_another_file(unify):
    with pytest.raises(JobError, match=r"hive folder 'year'"):
        unify(a=pa.table({"text": ["one"], "year": [1]}), year_is_2__b=pa.table({"text": ["two"]}))


SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("also", pa.large_string())])


def test_fitting_columns_pass(make_job):
    check_columns(make_job(), SCHEMA)
    check_columns(make_job(input__text=["text", "also"], output__columns=["id"]), SCHEMA)
    check_columns(make_job(output__columns=[]), SCHEMA)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
        pa.json_(),
    ],
    ids=str,
)
def test_every_kind_of_text_is_text(make_job, kind):
    check_columns(make_job(), pa.schema([("text", kind)]))


@pytest.mark.parametrize(
    "kind",
    [pa.int64(), pa.binary(), pa.list_(pa.string()), pa.dictionary(pa.int8(), pa.int64())],
    ids=str,
)
def test_a_text_column_of_another_type_is_refused(make_job, kind):
    with pytest.raises(JobError, match=r"input\.text: expected a text column, got 'text' of type"):
        check_columns(make_job(), pa.schema([("text", kind)]))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"input__text": "txt"}, r"input\.text"),
        ({"input__text": ["text", "txt"]}, r"input\.text"),
        ({"output__columns": ["id", "txt"]}, r"output\.columns"),
    ],
)
def test_a_column_that_is_not_there_is_named_with_those_that_are(make_job, changes, key):
    with pytest.raises(
        JobError, match=rf"{key}: expected a column .*, got 'txt'; did you mean 'text'"
    ):
        check_columns(make_job(**changes), SCHEMA)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("embed", "embedding"),
        ("embed", "headrace_error"),
        ("classify", "label"),
        ("classify", "score"),
        ("classify", "headrace_error"),
    ],
)
def test_an_input_column_must_not_have_a_result_s_name(make_job, task, name):
    schema = SCHEMA.append(pa.field(name, pa.string()))
    with pytest.raises(JobError, match=name):
        check_columns(make_job(model__task=task), schema)
    check_columns(make_job(model__task=task, output__columns=["id"]), schema)  # left out
    check_columns(make_job(model__task=task, output__prefix="b_"), schema)


def test_a_clash_names_both_ways_out(make_job):
    schema = SCHEMA.append(pa.field("b_headrace_error", pa.string()))
    check_columns(make_job(), schema)
    with pytest.raises(JobError, match=r"(?s)'b_headrace_error'.*output\.prefix.*the columns to"):
        check_columns(make_job(output__prefix="b_"), schema)


@pytest.mark.parametrize(
    ("multi_label", "top_k", "taken"),
    [(False, None, {"label"}), (False, 2, {"label", "top"}), (True, 2, {"labels"})],
)
def test_only_names_that_a_classifier_needs_are_taken(make_job, multi_label, top_k, taken):
    job = make_job(model__task="classify", model__top_k=top_k)
    for name in ("label", "top", "labels"):
        schema = SCHEMA.append(pa.field(name, pa.string()))
        if name in taken:
            with pytest.raises(JobError, match=name):
                check_columns(job, schema, multi_label=multi_label)
        else:
            check_columns(job, schema, multi_label=multi_label)


def test_an_embedding_run_may_keep_a_label(make_job):
    check_columns(make_job(), SCHEMA.append(pa.field("label", pa.string())))


def test_output_columns_named_twice_are_refused(make_job):
    """Readers can't address a doubled column of the output."""
    with pytest.raises(JobError, match=r"output\.columns"):
        check_columns(make_job(output__columns=["id", "id"]), SCHEMA)
