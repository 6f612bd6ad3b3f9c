import io

import pytest
from rich.console import Console

from headrace.flows.show_plan import preview_view
from headrace.schemas.plan import MemoryFit, PackSize
from headrace.schemas.preview import Preview


def text_of(view, value, width=200):
    console = Console(file=io.StringIO(), width=width)
    console.print(view(value))
    return console.file.getvalue()


@pytest.fixture
def preview(make_resolved):
    def make(**changes):
        keys = ("task", "labels", "top_k", "threshold", "dtype")
        facts = {key: changes.pop(key) for key in keys if key in changes}
        resolved = make_resolved(**facts)
        known = {
            "name": "unit",
            "files": 2,
            "rows": 12_345,
            "shards": 3,
            "largest_shard_rows": 5_000,
            "grid": resolved.grid,
            "road": resolved.road,
            "result": resolved.facts,
            "estimated_tokens": 250_000,
            "estimated_forward_s": 61.0,
            "estimated_cost": 0.25,
            "currency": "USD",
            "weights_bytes": 100 * 2**20,
            "shard_result_bytes": 10 * 2**20,
            "free_memory_bytes": 2**30,
            "job_fingerprint": "j",
            "input_fingerprint": "i",
            "output": "/data/out",
        }
        return Preview(**known | changes)

    return make


def test_a_preview_says_that_nothing_was_run_and_what_is_estimated(preview):
    text = text_of(preview_view, preview())
    for piece in (
        "nothing was run or written",
        "12,345 rows in 2 files",
        "3, the largest of 5,000 rows",
        "unit vectors of 4 float32, mean pooling",
        "2 (rows x tokens): 4 x 4, 2 x 16",
        "about 25.0% of the computed tokens",
        "about 61 s on one worker like this one",
        "about 0.2500 USD (estimated)",
        "about 160 MiB beside the input, 1,024 MiB free: fits",
    ):
        assert piece in text


def test_a_preview_of_packs_names_their_sizes(preview, make_resolved):
    grid = make_resolved().grid.model_copy(
        update={"shapes": (), "packs": (PackSize(tokens=65_536, rows=3_000),)}
    )
    road = make_resolved().road.model_copy(update={"layout": "packed"})
    text = text_of(preview_view, preview(grid=grid, road=road))
    assert "cpu, fp32, packed, eager: as the test says" in text
    assert "packs of tokens (of rows at most): 65,536 (3,000)" in text


def test_a_preview_warns_where_memory_is_short(preview):
    assert "DOES NOT FIT" in text_of(preview_view, preview(free_memory_bytes=2**20))


def test_a_preview_without_a_price_has_no_cost(preview):
    text = text_of(preview_view, preview(estimated_cost=None, currency=None))
    assert "unknown without a price" in text


def test_a_classifier_s_preview_names_its_classes(preview):
    text = text_of(preview_view, preview(task="classify", labels=("a", "b", "c", "d"), top_k=2))
    assert "one of 4 labels, top 2" in text


def test_a_multi_label_preview_names_its_threshold(preview):
    facts = {"task": "classify", "labels": ("a", "b", "c", "d"), "top_k": 3, "threshold": 0.25}
    text = text_of(preview_view, preview(**facts))
    assert "of 4 labels those with a probability of 0.25 or more, at most 3" in text


def test_a_preview_says_what_a_vector_s_values_are(preview):
    assert "unit vectors of 4 float16" in text_of(preview_view, preview(dtype="float16"))


def test_a_preview_of_a_gpu_s_road_tells_it(preview):
    given = preview()
    road = given.road.model_copy(
        update={
            "device": "cuda",
            "execution": "graphs",
            "frame": "cudf",
            "tokenizer": "cudf",
            "text_reason": "the tokens are alike",
        }
    )
    memory = MemoryFit(
        weights_bytes=90 * 2**20,
        activations_bytes=1_000 * 2**20,
        pool_bytes=2_000 * 2**20,
        texts_bytes=1_100 * 2**20,
        headroom_bytes=500 * 2**20,
        available_bytes=80_000 * 2**20,
    )
    text = text_of(preview_view, preview(road=road, gpu_memory=memory))
    for piece in (
        "cuda, fp32, bucketed, graphs: as the test says",
        "read by cudf, tokenized by cudf: the tokens are alike",
        "4,690 MiB (weights 90 + the largest batch 1,000 + cuDF's pool 2,000 + its readers 1,100 ",
        "80,000 MiB free",
    ):
        assert piece in text
    assert "GPU memory" not in text_of(preview_view, given)
