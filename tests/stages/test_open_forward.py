import pytest

from headrace.schemas.errors import JobError
from headrace.stages.model_folder import open_model_folder
from headrace.stages.open_forward import open_forward
from headrace.stages.packed_forward import PackedForward


@pytest.fixture
def header(tiny_run):
    """Make a plan's header with something changed in its road."""
    plain = tiny_run().place.header

    def make(**road):
        return plain.model_copy(update={"road": plain.road.model_copy(update=road)})

    return make


def test_the_plan_s_layout_and_precision_are_opened(header, tiny_bert):
    loaded = []

    def load(precision):
        loaded.append(precision)
        return tiny_bert()

    def opened(**road):
        made = header(**road)
        return open_forward(made, open_model_folder(made.job.model), load)

    assert opened().layout == "bucketed"
    packed = opened(layout="packed", precision="bf16")
    assert isinstance(packed, PackedForward)
    assert loaded == ["fp32", "bf16"]


def test_a_worker_that_can_not_run_the_layout_takes_no_shard(header, tiny_encoder):
    made = header(layout="packed")
    with pytest.raises(JobError, match=r"Choose model\.road: bucketed"):
        open_forward(made, open_model_folder(made.job.model), lambda _: tiny_encoder())
