import pytest

from headrace.schemas.preview import Preview


@pytest.fixture
def preview(make_resolved):
    resolved = make_resolved()
    return Preview(
        name="unit",
        files=1,
        rows=10,
        shards=2,
        largest_shard_rows=5,
        grid=resolved.grid,
        road=resolved.road,
        result=resolved.facts,
        estimated_tokens=40,
        estimated_forward_s=None,
        estimated_cost=None,
        currency=None,
        weights_bytes=100,
        shard_result_bytes=10,
        free_memory_bytes=160,
        job_fingerprint="j",
        input_fingerprint="i",
        output="out",
    )


def test_weights_and_open_shards_need_memory(preview):
    assert preview.needed_memory_bytes == 160
    assert preview.fits
    assert not preview.model_copy(update={"free_memory_bytes": 159}).fits
