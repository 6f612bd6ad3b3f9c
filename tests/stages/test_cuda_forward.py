import numpy as np
import pytest
import torch
from cuda_standin import LateCuda

from headrace.schemas.errors import HeadraceError, JobError, ShardError
from headrace.schemas.plan import ResultFacts, Shape, ShapeGrid
from headrace.stages import cuda_forward as module
from headrace.stages.batch import Batch
from headrace.stages.cuda_forward import DEPTH, CudaForward
from headrace.stages.forward import Forward
from headrace.stages.grid import batches_of
from headrace.stages.handover import put
from headrace.stages.isolate import run_batches
from headrace.stages.ragged import Ragged, Specials
from headrace.stages.results import Results

GRID = ShapeGrid(
    shapes=(Shape(length=4, rows=(8, 4, 2, 1)), Shape(length=16, rows=(4, 2, 1))),
    batch_tokens=64,
    sample_rows=0,
    sample_tokens=0,
    padding_share=0.0,
)
EMBED = ResultFacts(task="embed", width=4, max_length=16, pooling="mean", normalize=True)
INT8, BINARY = (EMBED.model_copy(update={"dtype": dtype}) for dtype in ("int8", "binary"))
CLASSIFY = ResultFacts(
    task="classify", width=4, top_k=2, max_length=16, pooling="mean", normalize=False
)


def ragged(rows=40, seed=1):
    """Rows of 0 to 14 bare tokens among the tiny encoder's first words, and their specials."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 15, rows)
    ids = random.integers(4, 8, int(counts.sum())).astype(np.int32)
    starts = np.cumsum(counts) - counts
    return Ragged(ids, starts, counts, np.ones(rows, np.bool_), 16, Specials((2,), (3,)))


def results_of(runner, tokens, grid=GRID):
    on_device = put(tokens, "cpu")
    results = Results(tokens.counts.size, runner.facts)
    batches = batches_of(grid, np.arange(tokens.counts.size), tokens.lengths)
    outcome = run_batches(
        batches,
        lambda batch: runner.launch(on_device, batch),
        results.place,
        runner.depth,
        runner.token_limit,
    )
    return results, outcome


class Classifier(torch.nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask):
        return {"logits": self.encoder(input_ids, attention_mask)[:, 0]}


@pytest.fixture
def make(tiny_encoder):
    def build(facts=EMBED, cuda=None, *, graphs=True):
        encoder = tiny_encoder()
        inner = Forward(
            encoder if facts.task == "embed" else Classifier(encoder), "cpu", facts, pad_id=0
        )
        runner = CudaForward(inner, cuda or LateCuda())
        if graphs:
            runner.warm_up(GRID.sizes)
        return inner, runner

    return build


@pytest.mark.parametrize(
    "facts", [EMBED, INT8, BINARY, CLASSIFY], ids=["embed", "int8", "binary", "classify"]
)
@pytest.mark.parametrize("graphs", [True, False])
def test_results_are_those_of_the_plain_road(make, facts, graphs):
    inner, runner = make(facts, graphs=graphs)
    tokens = ragged()
    expected, _ = results_of(inner, tokens)
    found, outcome = results_of(runner, tokens)
    assert outcome.faults == {}
    assert found.valid.all()
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_array_equal(found.scales, expected.scales)
    assert (found.scales > 0).all() == (facts.dtype == "int8")


def test_every_size_of_the_grid_is_captured_largest_first(make):
    cuda = LateCuda()
    _, runner = make(cuda=cuda)
    sizes = [8 * 4, 4 * 16, 4 * 4, 2 * 16, 2 * 4, 16, 4]
    assert runner.captured == len(sizes) == 7
    rows = [tensors[0].shape[0] for tensors in cuda.captured]
    assert rows == [4, 8, 2, 4, 1, 2, 1]  # of 64, 32, 32, 16, 16, 8 and 4 tokens


def test_a_captured_shape_runs_as_a_graph_and_a_cut_one_eagerly(make):
    _, runner = make()
    encoder = runner.module
    calls = len(encoder.batches)
    tokens = put(ragged(), "cpu")
    runner.launch(tokens, Batch(np.arange(4), 4, 16))()
    runner.launch(tokens, Batch(np.arange(3), 3, 16))()
    assert encoder.batches[calls:] == [(4, 16), (3, 16)]  # the stand-in's replay calls it, too
    assert runner.cuda.captured[0][0].isnan().sum() == 0


def test_no_more_batches_are_under_way_than_have_a_place(make):
    _, runner = make()
    tokens = put(ragged(), "cpu")
    first, second = (runner.launch(tokens, Batch(np.arange(at, at + 4), 4, 16)) for at in (0, 4))
    with pytest.raises(HeadraceError, match="at most 2 batches under way"):
        runner.launch(tokens, Batch(np.arange(8, 12), 4, 16))
    a, b = first(), second()
    assert DEPTH == 2
    assert not np.array_equal(a.values, b.values)


def test_two_batches_of_one_shape_do_not_spoil_each_other(make):
    """The second replay overwrites what the first gave before that has been copied."""
    inner, runner = make()
    tokens = put(ragged(), "cpu")
    batches = [Batch(np.arange(at, at + 4), 4, 16) for at in (0, 4)]
    waiting = [runner.launch(tokens, batch) for batch in batches]
    for batch, collect in zip(batches, waiting, strict=True):
        expected = inner.launch(tokens, batch)()
        np.testing.assert_array_equal(collect().values, expected.values)


def test_the_gpu_s_own_clock_tells_the_times(make):
    _, runner = make()
    runner.launch(put(ragged(), "cpu"), Batch(np.arange(4), 4, 16))()
    assert runner.spans.seconds == {"forward_s": 1.0, "d2h_s": 1.0}


def test_a_batch_that_can_not_be_begun_gives_its_place_back(make):
    _, runner = make(graphs=False)
    boom = Ragged(np.array([8], np.int32), np.array([0]), np.array([1]), np.array([True]), 16)
    for _ in range(DEPTH + 1):
        with pytest.raises(ValueError, match="a secret"):
            runner.launch(put(boom, "cpu"), Batch(np.array([0]), 1, 4))


def test_a_hopeless_shard_leaves_the_next_one_alone(make):
    """Its last batches are waited for, and their places are free again."""
    _, runner = make(graphs=False)
    nan = 9  # the tiny encoder's word that is no number
    hopeless = ragged(rows=200)
    hopeless.ids[:] = nan
    with pytest.raises(ShardError):
        results_of(runner, hopeless)
    found, outcome = results_of(runner, ragged())
    assert outcome.faults == {}
    assert found.valid.all()


def test_what_is_warmed_up_has_padding_as_what_is_captured(make):
    """Transformers runs a full batch without its mask, but not while it captures."""
    masks = []

    class Recording(LateCuda):
        def capture(self, work):
            masks.append(len(seen))
            return super().capture(work)

    seen = []
    inner, runner = make(cuda=Recording(), graphs=False)
    encoder = inner.module

    def forward(input_ids, attention_mask):
        seen.append(attention_mask.clone())
        return encoder(input_ids, attention_mask)

    inner.module = forward
    runner.warm_up(GRID.sizes)
    assert len(seen) == len(masks) == 7
    assert all(mask.sum() == 1 < mask.numel() for mask in seen)


def test_a_place_that_could_not_be_made_is_made_the_next_time(make, monkeypatch):
    _, runner = make(graphs=False)
    pinned, calls = runner.cuda.pinned, []

    def fail_once(shape, dtype):
        calls.append(shape)
        if len(calls) == 1:
            raise RuntimeError("CUDA error: out of memory")
        return pinned(shape, dtype)

    monkeypatch.setattr(runner.cuda, "pinned", fail_once)
    tokens = put(ragged(), "cpu")
    with pytest.raises(RuntimeError):
        runner.launch(tokens, Batch(np.arange(2), 2, 16))
    result = runner.launch(tokens, Batch(np.arange(2), 2, 16))()
    assert np.isfinite(result.values).all()


def test_a_batch_that_fails_late_is_bisected_like_any_other(make, monkeypatch):
    """CUDA tells of a fault when somebody waits."""
    _, runner = make()
    wait = runner.cuda.wait

    def fail(event):
        wait(event)
        values = event.copies[0][0]
        if values.shape[0] > 2:
            raise RuntimeError("CUDA error: something that passes")

    monkeypatch.setattr(runner.cuda, "wait", fail)
    tokens = ragged(rows=9)
    found, outcome = results_of(runner, tokens)
    assert outcome.faults == {}
    assert found.valid.all()


class Small(LateCuda):
    """A GPU that has no room for the largest shape, which is captured first."""

    def capture(self, work):
        if not self.gave_back:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().capture(work)


def test_a_shape_that_does_not_fit_is_left_out_and_its_batches_are_halved(make):
    inner, runner = make(cuda=Small())
    assert (runner.cuda.gave_back, runner.captured) == (1, 6)
    assert runner.token_limit == 32
    expected, before = results_of(inner, ragged())
    found, outcome = results_of(runner, ragged())
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    assert outcome.oom_halvings == 0
    assert "4 x 16" in before.shapes
    assert "4 x 16" not in outcome.shapes


def test_another_fault_of_a_capture_is_not_taken_for_one_of_memory(make, monkeypatch):
    cuda = LateCuda()

    def fail(work):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(cuda, "capture", fail)
    with pytest.raises(RuntimeError, match="capturing"):
        make(cuda=cuda)


def test_an_error_is_looked_at_before_it_is_passed_on(make, monkeypatch):
    """It may be one after which the GPU answers nothing."""
    seen = []
    monkeypatch.setattr(module, "end_if_sticky", seen.append)
    _, runner = make(graphs=False)
    monkeypatch.setattr(runner.inner, "run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runner.launch(put(ragged(), "cpu"), Batch(np.arange(4), 4, 16))
    assert [type(error) for error in seen] == [ZeroDivisionError]


def test_the_job_s_own_fault_comes_through(make):
    _, runner = make(graphs=False)
    runner.inner.module = lambda **_: None
    with pytest.raises(JobError, match="expected hidden"):
        runner.launch(put(ragged(), "cpu"), Batch(np.arange(4), 4, 16))
