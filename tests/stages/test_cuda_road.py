import pyarrow as pa
import pytest
import torch
from cuda_standin import LateCuda

from headrace.schemas.errors import JobError
from headrace.stages import cuda_road as module
from headrace.stages.cuda_road import choose_on_cuda
from headrace.stages.gpu_setup import reader_bytes
from headrace.stages.grid import make_grid, pack_sizes
from headrace.stages.model_folder import open_model_folder
from headrace.stages.shapes import choose_grid
from headrace.stages.text_road import TextChoice
from headrace.stages.tokenize import load_tokenizer, tokenize
from headrace.stages.trial import Bench

TEXTS = ["one", "two three", "three four one two", "four", ""] * 20
MIB = 1 << 20


class Changed(torch.nn.Module):
    """Another module, with something done to what it gives."""

    def __init__(self, inner, change):
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, input_ids, attention_mask):
        return self.change(self.inner(input_ids, attention_mask))


@pytest.fixture
def choose(make_job, tiny_model, tiny_encoder, monkeypatch):
    monkeypatch.setattr(module, "multiplies_bf16", lambda _: True)

    def make(cuda=None, text=None, budget=64, load=None, **changes):
        job = make_job(model__path=str(tiny_model), **changes)
        model = open_model_folder(job.model)
        probe = tokenize(pa.array(TEXTS), load_tokenizer(model), lowercase=False)
        bench = Bench(job, model, probe, "cpu", load or (lambda _: tiny_encoder()))

        def grid_of(tokens):
            if bench.packs:
                packs = pack_sizes(probe.lengths, max_length=16, batch_tokens=tokens)
                return make_grid(probe.lengths, tokens, 100, packs=packs)
            shapes = choose_grid(
                probe.lengths, max_length=16, max_shapes=3, batch_tokens=tokens, multiple=8
            )
            return make_grid(probe.lengths, tokens, 100, shapes=shapes)

        return choose_on_cuda(bench, grid_of, budget, text or TextChoice(), cuda or LateCuda())

    return make


def test_the_fastest_precision_that_is_good_enough_is_taken_with_graphs(choose):
    found = choose()
    road = found.road
    assert (road.device, road.precision, road.execution) == ("cuda", "bf16", "graphs")
    assert road.reason == "cosine 1.00000 to fp32"
    assert road.tokens_per_s > 0
    assert found.grid.batch_tokens == 64
    assert found.facts.width == 4


@pytest.fixture
def spoiled(tiny_encoder):
    """Load an encoder, and turn its vectors in some precisions."""

    def make(*precisions, change=lambda hidden: hidden.roll(1, dims=-1)):
        def load(precision):
            encoder = tiny_encoder()
            return Changed(encoder, change) if precision in precisions else encoder

        return load

    return make


@pytest.mark.parametrize(
    ("spoiled_ones", "taken", "said"),
    [
        (["bf16"], "fp16", ["cosine 1.00000 to fp32", "bf16 was tried: cosine"]),
        (["bf16", "fp16"], "fp32", ["bf16 was tried: cosine", "fp16 was tried: cosine"]),
    ],
)
def test_the_next_safer_precision_is_taken_and_the_plan_says_why(
    choose, spoiled, spoiled_ones, taken, said
):
    road = choose(load=spoiled(*spoiled_ones)).road
    assert road.precision == taken
    for words in said:
        assert words in road.reason


def test_values_that_overflow_are_not_good_enough(choose, spoiled):
    """As fp16 does above 65,504."""
    load = spoiled("bf16", change=lambda hidden: hidden * torch.inf)
    assert choose(load=load).road.precision == "fp16"


def test_a_gpu_without_native_bf16_begins_with_fp16(choose, monkeypatch):
    monkeypatch.setattr(module, "multiplies_bf16", lambda _: False)
    assert choose().road.precision == "fp16"


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_job_s_precision_is_taken_without_a_trial(choose, tiny_encoder, precision):
    asked = []

    def load(one):
        asked.append(one)
        return tiny_encoder()

    road = choose(load=load, model__precision=precision).road
    assert (asked, road.precision) == ([precision], precision)
    assert road.reason == "as the job says"


def test_memory_is_what_was_measured_against_what_is_free(choose):
    memory = choose(LateCuda(available=100_000, total=200_000)).memory
    assert memory.weights_bytes == 11 * 4 * 4
    assert memory.activations_bytes == 1_000
    assert memory.headroom_bytes == 10_000
    assert memory.pool_bytes == 0
    assert memory.needed_bytes == 176 + 1_000 + 10_000
    assert memory.fits


def test_cudf_s_pool_needs_room_too(choose):
    cuda = LateCuda(available=64 << 30, total=80 << 30)
    memory = choose(cuda, TextChoice("cudf", "cudf", "alike")).memory
    assert memory.pool_bytes == 8 << 30
    assert memory.texts_bytes == reader_bytes() == 3 * 12 * (32 << 20)
    assert memory.needed_bytes == sum(
        (176, 1_000, memory.pool_bytes, memory.texts_bytes, memory.headroom_bytes)
    )


def test_the_texts_road_is_written_down(choose):
    road = choose(LateCuda(available=64 << 30), TextChoice("cudf", "cudf", "alike")).road
    assert (road.frame, road.tokenizer, road.text_reason) == ("cudf", "cudf", "alike")


class Measured(LateCuda):
    """A GPU where a batch of so many rows runs out of memory, or takes a part of it."""

    def __init__(self, *, fails_above=10**9, bytes_a_row=0, **known):
        super().__init__(**known)
        self.fails_above, self.bytes_a_row, self.rows = fails_above, bytes_a_row, []

    def peak_bytes(self, work):
        rows = work().finite.size
        self.rows.append(rows)
        if rows > self.fails_above:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return rows * self.bytes_a_row


def test_out_of_memory_in_warm_up_shrinks_the_shapes(choose):
    cuda = Measured(fails_above=2)
    found = choose(cuda)
    assert found.grid.batch_tokens < 64
    assert f"batches of {found.grid.batch_tokens} tokens, since 64 do not fit" in found.road.reason
    assert cuda.rows[-1] <= 2
    assert cuda.gave_back == len(cuda.rows) - 1 > 0


def test_a_batch_that_leaves_no_headroom_shrinks_the_shapes(choose):
    cuda = Measured(bytes_a_row=1_000, available=13_000, total=200_000)
    found = choose(cuda)
    assert found.grid.batch_tokens < 64
    assert found.memory.fits
    assert found.memory.activations_bytes <= 13_000 - 10_000 - 176


def test_a_row_that_does_not_fit_alone_is_the_job_s_fault(choose):
    with pytest.raises(JobError, match="expected one row of 16 tokens to fit on the GPU"):
        choose(Measured(fails_above=0))
    with pytest.raises(JobError, match="MiB are free"):
        choose(LateCuda(available=100, total=100))


def test_another_error_of_a_full_batch_comes_through(choose):
    class Broken(LateCuda):
        def peak_bytes(self, work):
            raise RuntimeError("no kernel image is available")

    with pytest.raises(RuntimeError, match="no kernel image"):
        choose(Broken())


def test_a_model_too_large_for_fp32_is_the_job_s_to_decide(choose, tiny_encoder):
    def load(precision):
        if precision == "fp32":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return tiny_encoder()

    with pytest.raises(JobError, match=r"model\.precision: expected room for the model in fp32"):
        choose(load=load)
    assert choose(load=load, model__precision="bf16").road.precision == "bf16"


def test_a_model_that_can_not_be_captured_runs_eagerly_and_the_plan_says_why(choose):
    class Strict(LateCuda):
        def capture(self, work):
            raise RuntimeError("operation not permitted when stream is capturing")

    road = choose(Strict()).road
    assert road.execution == "eager"
    assert "without CUDA graphs: RuntimeError: operation not permitted" in road.reason


def test_a_replay_that_gives_something_else_is_not_taken(choose):
    class Stale(LateCuda):
        """Its graphs give what they gave when they were captured."""

        def capture(self, work):
            return lambda: None, work()

    road = choose(Stale()).road
    assert road.execution == "eager"
    assert "without CUDA graphs: cosine" in road.reason
    assert "to eager" in road.reason


def test_graphs_that_do_not_fit_are_said(choose):
    class Full(LateCuda):
        def capture(self, work):
            raise torch.OutOfMemoryError("CUDA out of memory")

    road = choose(Full()).road
    assert (road.execution, "they do not fit" in road.reason) == ("eager", True)


def test_packs_run_as_graphs(choose, tiny_bert):
    found = choose(load=lambda _: tiny_bert(), model__road="packed", model__precision="fp32")
    assert (found.road.layout, found.road.execution) == ("packed", "graphs")
    assert [pack.tokens for pack in found.grid.packs] == [64, 32, 16, 8]
    assert found.road.tokens_per_s > 0


def test_packs_shrink_until_they_fit_and_hold_one_row_at_least(choose, tiny_bert):
    asked = {"load": lambda _: tiny_bert(), "model__road": "packed", "model__precision": "fp32"}
    cuda = Measured(bytes_a_row=1_000)
    whole = choose(cuda, **asked)
    smaller = choose(Measured(fails_above=cuda.rows[0] // 2), **asked)
    assert smaller.grid.packs[0].tokens == whole.grid.packs[0].tokens // 2
    assert "batches of 32 tokens, since 64 do not fit" in smaller.road.reason
    with pytest.raises(JobError, match="expected one row of 16 tokens to fit on the GPU"):
        choose(Measured(fails_above=0), **asked)
