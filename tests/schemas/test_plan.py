import base64

import pyarrow as pa
import pytest
from pydantic import ValidationError

from headrace.schemas.plan import PlanHeader, Shard, Slice


def test_a_shard_counts_its_slices_and_names_its_part():
    shard = Shard(3, "1f3a9c07", (Slice("a", 0, 0, 5), Slice("b", 1, 2, 7)))
    assert shard.rows == 12
    assert shard.part == "part-0000003-1f3a9c07.parquet"
    assert Shard(0, "1f3a9c07", ()).rows == 0


@pytest.fixture
def header(make_job, make_resolved):
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"k": "v"})], metadata={"m": "n"})
    resolved = make_resolved()
    return PlanHeader(
        created="2026-01-01T00:00:00+00:00",
        job=make_job(),
        job_fields={},
        job_fingerprint="j",
        input_fingerprint="i",
        files=(),
        arrow_schema=base64.b64encode(schema.serialize()).decode(),
        rows=0,
        shards=1,
        slices_sha256="s",
        grid=resolved.grid,
        road=resolved.road,
        result=resolved.facts,
        versions={},
    )


def test_a_header_carries_the_schema_with_its_metadata(header):
    schema = header.dataset_schema
    assert schema.metadata == {b"m": b"n"}
    assert schema.field("a").metadata == {b"k": b"v"}


def test_a_header_survives_json(header):
    assert PlanHeader.model_validate_json(header.model_dump_json()) == header


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, 4 * 4),
        ({"dtype": "float16"}, 4 * 2),
        ({"dtype": "int8"}, 4 + 4),
        ({"dtype": "binary", "width": 9}, 2),
        ({"task": "classify", "top_k": 3}, 3 * 12),
    ],
    ids=str,
)
def test_a_row_s_result_has_a_size(make_resolved, facts, expected):
    assert make_resolved(**facts).facts.row_bytes == expected


def test_a_header_knows_the_columns_of_its_parts(header, make_job, make_resolved):
    assert header.added_columns.names == ("embedding", "headrace_error")
    job = make_job(model__task="classify", output__prefix="b_")
    for threshold, expected in [
        (None, ("b_label", "b_score", "b_headrace_error")),
        (0.0, ("b_labels", "b_headrace_error")),
    ]:
        facts = make_resolved(task="classify", threshold=threshold).facts
        changed = header.model_copy(update={"job": job, "result": facts})
        assert changed.added_columns.names == expected


def test_a_header_of_another_format_is_refused(header):
    later = header.model_dump() | {"format": 2}
    with pytest.raises(ValidationError, match="format"):
        PlanHeader.model_validate(later)
