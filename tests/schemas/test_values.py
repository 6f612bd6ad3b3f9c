"""status.py, verify.py, machine.py hold fields only: they must be frozen and survive JSON."""

import pytest
from pydantic import ValidationError

from headrace.schemas.report import Rows
from headrace.schemas.status import Status
from headrace.schemas.verify import Verification

STATUS = Status(
    output="out",
    name="unit",
    complete=False,
    success=False,
    rows=Rows(in_=3, good=3),
    rows_planned=5,
    shards_committed=1,
    shards_missing=1,
    damaged={"part": "why"},
)
VERIFICATION = Verification(
    output="out",
    ok=False,
    faults=("a fault",),
    rows=Rows(in_=3, good=3),
    rows_planned=5,
    shards=1,
    shards_planned=2,
    bytes_read=10,
)


@pytest.mark.parametrize("value", [STATUS, VERIFICATION], ids=lambda value: type(value).__name__)
def test_a_value_survives_json_and_is_frozen(value):
    assert type(value).model_validate_json(value.model_dump_json(by_alias=True)) == value
    with pytest.raises(ValidationError, match="frozen"):
        value.output = "elsewhere"
