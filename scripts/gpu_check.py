"""Check on a GPU what only a GPU can show, and print one table. Run by scripts/gpu_check.sh."""

import argparse
import importlib.metadata
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from gpu_check_kernels import TOKENS, Ceilings, compare_kernels, measure_ceilings
from gpu_check_run import Done, flop_per_token, run_job

from headrace.stages.cuda import Cuda
from headrace.stages.gpu_setup import prepare_environment
from headrace.stages.resolve import BATCH_TOKENS

PACKAGES = ("torch", "triton", "cupy-cuda13x", "cudf-cu13", "dask-cuda", "distributed", "prefect")
MIN_COSINE = 0.999
COPIES_OF_THE_ROWS = 50
SHARD_ROWS = 20_000
REHEARSED_ROWS = 60


class Unmeasured(Exception):  # noqa: N818 - it is no error
    """What a check lacks here."""

    def __init__(self, lack: str = "needs a GPU") -> None:
        """Say what."""
        super().__init__(lack)


@dataclass
class Table:
    """What was checked, one line each."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, name: str, state: str, value: str) -> None:
        """Print a line at once, so that a run cut short shows what it had."""
        self.lines.append((name, state, value))
        print(f"| {name:34} | {state:10} | {value} |", flush=True)

    def check(self, name: str, work: Callable[[], Iterator[tuple[str, bool | None, str]]]) -> None:
        """Run one check, which yields lines: name, whether it holds (None: a figure), value."""
        start = time.perf_counter()
        try:
            for part, holds, value in work():
                state = "measured" if holds is None else "ok" if holds else "FAILED"
                self.add(f"{name}: {part}", state, value)
        except Unmeasured as lack:
            self.add(name, "unmeasured", str(lack))
        except Exception as error:  # noqa: BLE001 - the other checks are still of use
            self.add(name, "FAILED", f"{type(error).__name__}: {error}".replace("\n", " ")[:200])
        self.add(f"{name}: took", "", f"{time.perf_counter() - start:.1f} s")

    @property
    def failed(self) -> int:
        """How many lines failed."""
        return sum(state == "FAILED" for _, state, _ in self.lines)


@dataclass
class Kit:
    """Where things are, and what earlier checks found."""

    pack: Path
    rows: Path
    tmp: Path
    device: str
    copies: int
    ceilings: Ceilings | None = None

    def job(self, name: str, source: Path, device: str, **model: object) -> dict[str, object]:
        """Write a job over some rows."""
        return {
            "name": "gpu-check",
            "input": {"path": str(source), "text": "text"},
            "model": {"path": str(self.pack / "model"), "task": "embed", **model},
            "shards": {"target_rows": SHARD_ROWS},
            "compute": {"device": device},
            "output": {"path": str(self.tmp / name)},
        }


Lines = Iterator[tuple[str, bool | None, str]]


def versions(kit: Kit) -> Lines:
    """Say what is here."""
    yield "python", None, platform.python_version()
    for name in PACKAGES:
        try:
            yield name, None, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, None, "not installed"
    if kit.device == "cuda":
        free, total = torch.cuda.mem_get_info()
        name = torch.cuda.get_device_name()
        yield "GPU", None, f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
        yield "CUDA of torch", None, str(torch.version.cuda)


def ceilings(kit: Kit) -> Lines:
    """Measure what this device does at best: matrices, and copies within its memory."""
    best = kit.ceilings = measure_ceilings(kit.device)
    matrices = f"{str(best.dtype).removeprefix('torch.')} matrices"
    yield matrices, None, f"{best.flop_per_s / 1e12:.2f} TFLOP/s"
    yield "memory, reads and writes", None, f"{best.bytes_per_s / 1e12:.3f} TB/s"


def parity(kit: Kit) -> Lines:
    """Compare the GPU's embeddings with those of the CPU in fp32."""
    cpu = run_job(kit.job("cpu", kit.rows, "cpu", precision="fp32"))
    expected = cpu.vectors()
    wanted = ("fp32", "bf16", "fp16") if kit.device == "cuda" else ("bf16",)
    for precision in wanted:
        found = run_job(kit.job(precision, kit.rows, kit.device, precision=precision))
        cosine = (found.vectors() * expected).sum(1)
        road = found.resolved.road
        least = 0.999999 if precision == "fp32" else MIN_COSINE
        value = f"lowest cosine {cosine.min():.6f} of {cosine.size:,} rows, {road.execution}"
        yield f"{precision} against the CPU", bool(cosine.min() >= least), value
        if kit.device == "cuda":
            yield f"{precision} by graphs", road.execution == "graphs", road.reason


def graphs(kit: Kit) -> Lines:
    """Compare every captured shape's replay with eager execution, and time both."""
    if kit.device != "cuda":
        raise Unmeasured
    from gpu_check_graphs import SHAPES, compare_graphs

    yield from compare_graphs(kit.pack / "model", kit.device, Cuda(), SHAPES)


def layouts(kit: Kit) -> Lines:
    """Compare packed with bucketed with transformers, in results and speed."""
    from gpu_check_layouts import compare_layouts

    on_gpu = kit.device == "cuda"
    yield from compare_layouts(
        kit.pack / "model",
        kit.rows,
        kit.device,
        Cuda() if on_gpu else None,
        copies=kit.copies,
        batch_tokens=BATCH_TOKENS[kit.device],
        precision="bf16" if on_gpu else "fp32",
        rate=None if kit.ceilings is None else kit.ceilings.flop_per_s,
    )


def kernels(kit: Kit) -> Lines:
    """Compare every kernel with its reference, and with what the device does at best."""
    if kit.ceilings is None:
        lack = "needs the ceilings"
        raise Unmeasured(lack)
    yield from compare_kernels(kit.device, TOKENS[kit.device], kit.ceilings)


def tokenizer(kit: Kit) -> Lines:
    """Compare the GPU's tokens with the model's own tokenizer's."""
    try:
        import cudf
    except ImportError as error:
        lack = "cuDF is not installed"
        raise Unmeasured(lack) from error
    if kit.device != "cuda":
        raise Unmeasured
    from gpu_check_tokens import compare_tokens

    yield "cuDF", None, cudf.__version__
    yield from compare_tokens(kit.pack / "model", kit.rows, kit.device)


def end_to_end(kit: Kit) -> Lines:
    """Run a larger job as a user would, and say where its time went."""
    table = pq.read_table(kit.rows)
    many = kit.tmp / "many.parquet"
    pq.write_table(pa.concat_tables([table] * kit.copies), many, row_group_size=SHARD_ROWS)
    done = run_job(kit.job("many", many, kit.device))
    tally, road = done.tally, done.resolved.road
    yield "road", None, f"{road.precision}, {road.execution}: {road.reason}"
    texts = f"read by {road.frame}, tokenized by {road.tokenizer}"
    yield "texts", None, f"{texts}: {road.text_reason}" if road.text_reason else texts
    yield "rows that have a result", tally.rows.good == tally.rows.in_, f"{tally.rows.good:,}"
    yield "whole job", None, f"{tally.rows.in_ / done.wall_s:,.0f} rows/s"
    yield "useful tokens", None, f"{tally.tokens / done.wall_s:,.0f} tokens/s"
    yield "start-up and plan", None, f"{done.startup_s:.1f} s"
    yield from _shares(kit, done)
    split = ", ".join(
        f"{name.removesuffix('_s')} {value:.2f}"
        for name, value in tally.seconds.model_dump().items()
        if value
    )
    yield "seconds by span", None, split
    if done.peak_bytes is not None:
        yield "peak memory", None, f"{done.peak_bytes / 2**20:,.0f} MiB"
    if done.resolved.memory is not None:
        memory = done.resolved.memory
        yield "memory fit", memory.fits, f"needs {memory.needed_bytes / 2**20:,.0f} MiB"


def _shares(kit: Kit, done: Done) -> Lines:
    tally = done.tally
    busy_s = tally.seconds.forward_s
    yield "idle share of the device", None, f"{max(0.0, 1 - busy_s / done.wall_s):.1%}"
    yield "padding", None, f"{tally.padding_share or 0.0:.1%}"
    if kit.ceilings is not None and busy_s:
        flop = flop_per_token(kit.pack / "model", tally.tokens / max(1, tally.rows.good))
        job, device = (
            flop * tally.tokens / span / kit.ceilings.flop_per_s for span in (done.wall_s, busy_s)
        )
        value = f"{job:.1%} over the whole job, {device:.1%} while the device is busy"
        yield "share of the matrix rate", None, value


def main() -> int:
    """Run every check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, with few rows")
    asked = parser.parse_args()
    prepare_environment()
    if not asked.rehearse and not torch.cuda.is_available():
        print("gpu_check: expected a GPU that torch can use, got none; try --rehearse")
        return 2
    table, start = Table(), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="headrace-gpu-check-") as tmp:
        rows = asked.pack / "rows.parquet"
        kit = Kit(asked.pack, rows, Path(tmp), "cuda", COPIES_OF_THE_ROWS)
        if asked.rehearse:
            kit = Kit(asked.pack, Path(tmp) / "few.parquet", Path(tmp), "cpu", 2)
            pq.write_table(pq.read_table(rows).slice(0, REHEARSED_ROWS), kit.rows)
        steps: dict[str, Callable[[Kit], Any]] = {
            "versions": versions,
            "ceilings": ceilings,
            "kernels": kernels,
            "tokenizer": tokenizer,
            "parity": parity,
            "end to end": end_to_end,
            "layouts": layouts,
            "graphs": graphs,  # last: a capture that breaks off may leave the process in doubt
        }
        for name, step in steps.items():
            table.check(name, partial(step, kit))
    print(f"{len(table.lines)} lines, {table.failed} failed, {time.perf_counter() - start:.0f} s")
    return 1 if table.failed else 0


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    sys.exit(main())
