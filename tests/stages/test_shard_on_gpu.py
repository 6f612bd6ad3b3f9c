"""A shard's whole journey by the GPU's road, on a CPU: cuDF and CUDA are stand-ins."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from cuda_standin import LateCuda
from gpu_support import install

from headrace.schemas.plan import Shape
from headrace.stages.cuda_forward import CudaForward
from headrace.stages.device_texts import DeviceTexts
from headrace.stages.model_folder import open_model_folder
from headrace.stages.prepare import host_texts
from headrace.stages.wordpiece import WordPiece, read_spec

TEXTS = [
    "one two three",
    "Ünï 🎉",
    None,
    "",
    "boom",
    "x" * 150,
    "[SEP]",
    "four " * 40,
    b"\xff bad".decode("utf-8", "surrogateescape"),
    "nan",
]
STEPS = ["strip", "collapse_whitespace", {"replace": {"find": "boom", "with": "boom boom"}}]
GRID = (Shape(length=8, rows=(4, 2, 1)), Shape(length=16, rows=(2, 1)))


class Hashing(torch.nn.Module):
    """Hidden states that depend on ids and mask; `boom` raises, `nan` is no number."""

    def __init__(self, tokenizer):
        super().__init__()
        self.boom, self.nan = (tokenizer.encode(word).ids[1] for word in ("boom", "nan"))

    def forward(self, input_ids, attention_mask):
        if (input_ids == self.boom).any():
            raise ValueError("a secret of the row")
        angle = input_ids[..., None] * torch.tensor([0.1, 0.01, 0.7, 1.3])
        return torch.sin(angle).masked_fill((input_ids == self.nan)[..., None], torch.nan)


@pytest.fixture
def places(tmp_path, run_over, minilm, monkeypatch):
    """Two workplaces over one input: the CPU's, and the GPU's with its stand-ins."""
    install(monkeypatch)
    (tmp_path / "in").mkdir()
    data = [None if text is None else text.encode("utf-8", "surrogateescape") for text in TEXTS]
    text = pa.array(data, pa.binary()).view(pa.string())
    table = pa.table({"id": range(len(TEXTS)), "text": text})
    pq.write_table(table, tmp_path / "in/a.parquet", row_group_size=7)

    def make(name, *, gpu):
        run = run_over(
            tmp_path,
            model__path=str(minilm),
            model__max_length=16,
            output__path=str(tmp_path / name),
            output__columns=["id"],
            preprocess=STEPS,
        )
        model = open_model_folder(run.job.model)
        host = host_texts(run.job, model)
        header = run.place.header
        grid = header.grid.model_copy(update={"shapes": GRID})
        place = dataclasses.replace(
            run.place, texts=host, header=header.model_copy(update={"grid": grid})
        )
        inner = dataclasses.replace(place.forward, module=Hashing(host.tokenizer))
        place = dataclasses.replace(place, forward=inner)
        if gpu:
            runner = CudaForward(inner, LateCuda())
            runner.warm_up(grid.sizes)
            wordpiece = WordPiece(read_spec(model.path))
            texts = DeviceTexts(host, place.source, wordpiece, "cudf", "cpu")
            place = dataclasses.replace(place, forward=runner, texts=texts)
        return dataclasses.replace(run, place=place)

    return make("cpu", gpu=False), make("gpu", gpu=True)


def whole(run):
    reports = run.compute(*range(len(run.shards)))
    tables = [pq.read_table(run.part(at), partitioning=None) for at in range(len(run.shards))]
    return reports, pa.concat_tables(tables)


def test_the_gpu_s_road_makes_the_same_parts(places):
    cpu, gpu = places
    cpu_reports, expected = whole(cpu)
    gpu_reports, found = whole(gpu)
    assert found.drop_columns("embedding").equals(expected.drop_columns("embedding"))
    assert found["headrace_error"].to_pylist()[4:] == [
        "ValueError in forward",
        None,
        None,
        None,
        "UnicodeDecodeError in preprocess",
        "NonFiniteResult in forward",
    ]
    for left, right in zip(found["embedding"], expected["embedding"], strict=True):
        assert left.is_valid == right.is_valid
        if left.is_valid:
            np.testing.assert_allclose(left.as_py(), right.as_py(), atol=1e-6)
    for one, other in zip(gpu_reports, cpu_reports, strict=True):
        assert one.tally.rows == other.tally.rows
        assert one.tally.tokens == other.tally.tokens
        assert one.tally.bytes_in == other.tally.bytes_in
        assert sum(one.tally.tokenized.values()) == sum(other.tally.tokenized.values())
    assert sum(report.tally.tokenized["cudf"] for report in gpu_reports) == 5
    assert sum(report.tally.tokenized["tokenizers"] for report in gpu_reports) == 3


def test_the_model_s_columns_are_not_read_as_arrow(places, monkeypatch):
    from headrace.stages import shard as module

    _, gpu = places
    asked = []
    read = module.read_slices

    def recorded(source, slices, columns):
        asked.append(list(columns))
        return read(source, slices, columns)

    monkeypatch.setattr(module, "read_slices", recorded)
    gpu.compute(0)
    assert asked == [["id"]]


def test_every_span_is_told(places):
    _, gpu = places
    (report,) = gpu.compute(0)
    told = {name for name, value in report.tally.seconds.model_dump().items() if value}
    assert told >= {"read_s", "preprocess_s", "tokenize_s", "h2d_s", "forward_s", "d2h_s"}


def test_a_shard_that_is_computed_twice_has_the_same_values(places):
    _, gpu = places
    gpu.compute(0)
    first = pq.read_table(gpu.part(0), partitioning=None)
    gpu.part(0).unlink()
    gpu.compute(0)
    assert pq.read_table(gpu.part(0), partitioning=None).equals(first)
