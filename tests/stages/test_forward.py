import numpy as np
import pyarrow as pa
import pytest
import torch

from headrace.schemas.errors import JobError
from headrace.schemas.plan import ResultFacts
from headrace.stages.batch import Batch
from headrace.stages.forward import Forward, model_tensor
from headrace.stages.handover import put
from headrace.stages.ragged import ragged_of
from headrace.stages.tokenize import Tokens

WIDTH = 4


def facts(task="embed", **changes):
    known = {"width": WIDTH, "max_length": 16, "pooling": "mean", "normalize": False}
    return ResultFacts(task=task, **known | changes)


def tokens(*rows):
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    ids = np.array([token for row in rows for token in row], np.int32)
    return ragged_of(Tokens(ids, offsets), np.ones(len(rows), np.bool_), 16)


class Module(torch.nn.Module):
    """Gives whatever a function makes of ids and mask, and remembers what it was given."""

    def __init__(self, give):
        super().__init__()
        self.give, self.seen = give, []

    def forward(self, input_ids, attention_mask):
        self.seen.append((input_ids.tolist(), attention_mask.tolist()))
        return self.give(input_ids, attention_mask)


def spread(ids, _mask=None):
    """Hidden states that hold the token's id in every feature."""
    return ids[..., None].expand(*ids.shape, WIDTH).float()


ROWS = tokens([2], [4, 6], [], [10, 20, 30])


def run(module, batch, given=ROWS, **changes):
    forward = Forward(module, "cpu", facts(**changes), pad_id=9)
    return forward, forward.launch(put(given, "cpu"), batch)()


def test_a_batch_runs_in_its_static_shape_and_keeps_the_order_of_its_rows():
    module = Module(spread)
    forward, result = run(module, Batch(np.array([3, 0, 1]), 4, 3))
    assert module.seen == [
        (
            [[10, 20, 30], [2, 9, 9], [4, 6, 9], [9, 9, 9]],
            [[1, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]],
        )
    ]
    assert result.values.tolist() == [[20.0] * WIDTH, [2.0] * WIDTH, [5.0] * WIDTH]
    assert result.values.dtype == np.float32
    assert result.classes is None
    assert result.finite.tolist() == [True] * 3
    assert set(forward.spans.seconds) == {"forward_s", "post_s", "d2h_s"}


def test_vectors_are_normalized_where_the_job_says_so():
    _, result = run(Module(spread), Batch(np.array([3, 0]), 2, 3), normalize=True)
    np.testing.assert_allclose(np.linalg.norm(result.values, axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize(("pooling", "expected"), [("cls", 10), ("last", 30), ("max", 30)])
def test_the_pooling_of_the_plan_is_used(pooling, expected):
    _, result = run(Module(spread), Batch(np.array([3]), 1, 4), pooling=pooling)
    assert result.values.tolist() == [[expected] * WIDTH]


def test_a_row_without_a_token_gives_zeros():
    _, result = run(Module(spread), Batch(np.array([2]), 2, 3))
    assert result.values.tolist() == [[0.0] * WIDTH]
    assert result.finite.tolist() == [True]


def test_half_precision_comes_back_as_float32():
    _, result = run(Module(lambda ids, _: spread(ids).bfloat16()), Batch(np.array([3]), 1, 3))
    assert result.values.dtype == np.float32
    assert result.values.tolist() == [[20.0] * WIDTH]


def test_a_model_that_pools_by_itself_is_not_pooled_again():
    module = Module(lambda ids, mask: {"pooled": spread(ids)[:, 0].double()})
    _, result = run(module, Batch(np.array([1, 3]), 2, 3))
    assert result.values.tolist() == [[4.0] * WIDTH, [10.0] * WIDTH]


def test_a_row_that_is_no_number_is_told_and_padding_is_not():
    def give(ids, _mask):
        hidden = spread(ids)
        return hidden.masked_fill(ids[..., None] == 2, torch.nan).masked_fill(
            ids[..., None] == 9, torch.inf
        )

    _, result = run(Module(give), Batch(np.array([0, 1]), 3, 3))
    assert result.finite.tolist() == [False, True]


def test_a_classifier_gives_its_best_classes():
    module = Module(lambda ids, _: {"logits": torch.tensor([[0.0, 3.0, 1.0], [5.0, 1.0, 1.0]])})
    _, result = run(module, Batch(np.array([0]), 2, 3), task="classify", top_k=2, width=3)
    assert result.classes.tolist() == [[1, 2]]
    assert result.values.shape == (1, 2)
    np.testing.assert_allclose(result.values[0, 0], np.exp(3) / (1 + np.exp(3) + np.exp(1)))


def test_a_multi_label_classifier_judges_each_class_by_itself():
    module = Module(lambda ids, _: torch.tensor([[0.0, 3.0, -1.0]] * ids.shape[0]))
    known = {"task": "classify", "activation": "sigmoid", "threshold": 0.5}
    _, result = run(module, Batch(np.array([0]), 1, 3), **known, top_k=3, width=3)
    assert result.classes.tolist() == [[1, 0, 2]]
    expected = [[1 / (1 + np.exp(-3)), 0.5, 1 / (1 + np.exp(1))]]
    np.testing.assert_allclose(result.values, expected, rtol=1e-6)


def ramp(ids, _mask=None):
    """Hidden states of 3, 4, 12 and 84 times the token's id."""
    return ids[..., None] * torch.tensor([3.0, 4.0, 12.0, 84.0])


def test_a_vector_is_cut_before_it_is_scaled():
    batch = Batch(np.array([0]), 1, 1)
    _, result = run(Module(ramp), batch, truncate_dim=2, width=2)
    assert result.values.tolist() == [[6.0, 8.0]]
    _, result = run(Module(ramp), batch, truncate_dim=2, width=2, normalize=True)
    np.testing.assert_allclose(result.values, [[0.6, 0.8]], rtol=1e-6)


def test_a_vector_that_the_model_pooled_is_cut_too():
    module = Module(lambda ids, _: {"pooled": ramp(ids)[:, 0]})
    _, result = run(module, Batch(np.array([0]), 1, 1), truncate_dim=3, width=3)
    assert result.values.tolist() == [[6.0, 8.0, 24.0]]


def test_vectors_leave_the_device_in_the_plan_s_dtype():
    module = Module(lambda ids, _: ramp(ids) / 3)
    _, exact = run(module, Batch(np.array([3, 0]), 2, 3))
    _, half = run(module, Batch(np.array([3, 0]), 2, 3), dtype="float16")
    assert half.values.dtype == np.float16
    assert half.values.tolist() == exact.values.astype(np.float16).tolist()


def test_vectors_leave_the_device_as_whole_numbers_and_their_scale():
    module = Module(lambda ids, _: ramp(ids) / 3)
    _, exact = run(module, Batch(np.array([3, 0]), 2, 3))
    _, whole = run(module, Batch(np.array([3, 0]), 2, 3), dtype="int8")
    assert (whole.values.dtype, whole.scales.dtype) == (np.int8, np.float32)
    assert whole.values.max(1).tolist() == [127, 127]
    error = np.abs(whole.values * whole.scales[:, None] - exact.values)
    assert (error <= whole.scales[:, None] / 2 * 1.0001).all()
    assert exact.scales is None


def test_a_value_that_overflows_float16_is_not_finite():
    module = Module(lambda ids, _: ramp(ids) * 100)
    batch = Batch(np.array([0, 1]), 2, 2)  # tokens 2; 4 and 6
    _, result = run(module, batch, dtype="float16")
    assert result.finite.tolist() == [True, True]
    module = Module(lambda ids, _: ramp(ids) * 200)
    _, result = run(module, batch, dtype="float16")
    assert result.finite.tolist() == [True, False]
    assert run(module, batch, dtype="float16", normalize=True)[1].finite.all()
    assert run(module, batch)[1].finite.all()


def test_what_the_model_raises_comes_through():
    def give(ids, mask):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(Module(give), Batch(np.array([0]), 1, 3))


@pytest.mark.parametrize(
    "give",
    [
        lambda ids, _: torch.zeros(1, WIDTH),
        lambda ids, _: torch.zeros(WIDTH, ids.shape[0]),
        lambda ids, _: torch.zeros(ids.shape[1] + 1, ids.shape[0], WIDTH),
    ],
    ids=["one row for all", "rows and features swapped", "rows and tokens swapped"],
)
def test_a_model_that_gives_another_number_of_rows_is_the_job_s_fault(give):
    """Else rows get each other's results, or every row is blamed for it."""
    with pytest.raises(JobError, match="model"):
        run(Module(give), Batch(np.arange(3), 3, 3))


HIDDEN, FLAT = torch.zeros(2, 3, 4), torch.zeros(2, 4)


@pytest.mark.parametrize(
    ("output", "task"),
    [
        (HIDDEN, "embed"),
        (FLAT, "embed"),
        ({"last_hidden_state": HIDDEN}, "embed"),
        ({"hidden": HIDDEN}, "embed"),
        ({"pooled": FLAT}, "embed"),
        (FLAT, "classify"),
        ({"logits": FLAT}, "classify"),
    ],
)
def test_a_model_s_tensor_is_found(output, task):
    expected = next(iter(output.values())) if isinstance(output, dict) else output
    assert model_tensor(output, task) is expected


def test_transformers_outputs_are_mappings():
    from transformers.modeling_outputs import BaseModelOutputWithPooling, SequenceClassifierOutput

    output = BaseModelOutputWithPooling(last_hidden_state=HIDDEN, pooler_output=FLAT)
    assert model_tensor(output, "embed") is HIDDEN
    assert model_tensor(SequenceClassifierOutput(logits=FLAT), "classify") is FLAT


@pytest.mark.parametrize(
    ("output", "task", "words"),
    [
        (HIDDEN, "classify", ["logits (B, C)", "shape (2, 3, 4)"]),
        (torch.zeros(2), "embed", ["hidden (B, L, H)", "shape (2,)"]),
        ({"logits": FLAT}, "embed", ["pooled (B, D)", "['logits']"]),
        ({"last_hidden_state": HIDDEN}, "classify", ["logits", "['last_hidden_state']"]),
        ((HIDDEN,), "embed", ["a tuple"]),
        (None, "embed", ["a NoneType"]),
        ({"pooled": pa.array([1])}, "embed", ["['pooled']"]),
    ],
)
def test_another_output_is_described(output, task, words):
    with pytest.raises(JobError) as caught:
        model_tensor(output, task)
    for word in words:
        assert word in str(caught.value)
