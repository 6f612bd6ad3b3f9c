import json

import pyarrow as pa
import pytest

from headrace.schemas import layout
from headrace.schemas.plan import Shard, Slice
from headrace.stages.faults import list_faults, texts_of
from headrace.stages.store import file_sha256, own_tmp

SHARD = Shard(3, "1f3a9c07", (Slice("a", 0, 10, 5), Slice("b/ü", 2, 0, 4)))


def test_rows_are_named_by_file_row_group_and_row(tmp_path):
    faults = {8: "last", 0: "first", 4: "end of a", 5: "start of b"}
    sha256 = list_faults(tmp_path, SHARD, faults)
    file = tmp_path / layout.errors_path(SHARD.part, sha256)
    assert file_sha256(file) == sha256
    assert [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] == [
        {"file": "a", "row_group": 0, "row": 10, "reason": "first"},
        {"file": "a", "row_group": 0, "row": 14, "reason": "end of a"},
        {"file": "b/ü", "row_group": 2, "row": 0, "reason": "start of b"},
        {"file": "b/ü", "row_group": 2, "row": 3, "reason": "last"},
    ]
    assert list(own_tmp(tmp_path).iterdir()) == []


def test_without_a_fault_nothing_is_written(tmp_path):
    assert list_faults(tmp_path, SHARD, {}) is None
    assert list(tmp_path.iterdir()) == []


def test_two_attempts_lists_stand_side_by_side(tmp_path):
    digests = {list_faults(tmp_path, SHARD, faults) for faults in ({0: "x"}, {1: "x"}, {0: "x"})}
    assert len(digests) == 2
    assert len(list((tmp_path / layout.ERRORS).iterdir())) == 2


def test_the_texts_of_guilty_rows_are_listed_where_they_are_given(tmp_path):
    texts = {0: {"title": "a", "text": None}}
    sha256 = list_faults(tmp_path, SHARD, {0: "x", 4: "y"}, texts)
    lines = (tmp_path / layout.errors_path(SHARD.part, sha256)).read_text().splitlines()
    assert json.loads(lines[0])["input"] == {"title": "a", "text": None}
    assert "input" not in json.loads(lines[1])


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.json_(),
    ],
    ids=str,
)
def test_texts_of_any_kind_of_column_are_taken(kind):
    column = pa.array(["one", None, "é"]).cast(kind) if kind != pa.json_() else None
    if column is None:
        column = pa.ExtensionArray.from_storage(kind, pa.array(["one", None, "é"]))
    table = pa.table({"text": pa.chunked_array([column, column]), "other": [1] * 6})
    assert texts_of(table, ["text"], [4, 3, 2]) == {
        4: {"text": None},
        3: {"text": "one"},
        2: {"text": "é"},
    }


def test_bytes_that_are_no_text_can_be_seen():
    data = pa.array([b"ok \xff"]).view(pa.string())
    assert texts_of(pa.table({"text": data}), ["text"], [0]) == {0: {"text": "ok \\xff"}}
