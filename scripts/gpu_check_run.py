"""Run a whole job in this process: the stages of a worker, without Dask and Prefect."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from headrace.schemas.job import Job, Precision
from headrace.schemas.plan import Resolved
from headrace.schemas.report import Tally
from headrace.stages.cores import own_cores
from headrace.stages.cuda import device_uuid
from headrace.stages.device_thread import DeviceThread
from headrace.stages.ledger import WorkerLedger
from headrace.stages.load_model import load_module
from headrace.stages.nvml import Gauge
from headrace.stages.open_forward import open_forward
from headrace.stages.plan import draw_plan, write_plan
from headrace.stages.resolve import resolve
from headrace.stages.sample import sample_slices
from headrace.stages.shard import process_shard
from headrace.stages.stall import StallWatch
from headrace.stages.survey import survey
from headrace.stages.text_road import open_text_road
from headrace.stages.workplace import Workplace

THREADS = 3  # as a Dask worker has


@dataclass(frozen=True)
class Done:
    """What a run gave, and how long its shards took, start-up apart."""

    resolved: Resolved
    tally: Tally
    wall_s: float
    startup_s: float
    peak_bytes: int | None
    out: Path

    def vectors(self) -> npt.NDArray[np.float32]:
        """The embeddings of all rows, in order, (N, W)."""
        parts = sorted(self.out.glob("part-*.parquet"))
        column = pa.concat_tables(pq.read_table(part) for part in parts)["embedding"]
        flat: npt.NDArray[np.float32] = column.combine_chunks().flatten().to_numpy()
        return flat.reshape(len(column), -1)


def run_job(content: dict[str, object]) -> Done:
    """Run a job whose output folder does not exist yet."""
    start = time.perf_counter()
    job = Job.model_validate(content)
    surveyed = survey(job)
    shards = surveyed.cut()
    device = job.compute.device
    thread = DeviceThread(own_cores(1))
    rows = sum(shard.rows for shard in shards) // len(shards)

    def load(precision: Precision) -> torch.nn.Module:
        return load_module(job.model, surveyed.model, device, precision)

    resolved = thread.run(
        lambda: resolve(
            job, surveyed.model, surveyed.source, sample_slices(shards), rows, device, load
        )
    )
    out = Path(job.output.path)
    out.mkdir(parents=True)
    plan = write_plan(out, draw_plan(surveyed, shards, resolved), surveyed)
    ledger = WorkerLedger(time.time())
    place = Workplace(
        out=out,
        source=surveyed.source,
        header=plan.header,
        texts=open_text_road(job, surveyed.model, surveyed.source, plan.header.road),
        forward=thread.run(lambda: open_forward(plan.header, surveyed.model, load)),
        device=thread,
        ledger=ledger,
        price=None,
        invocation="gpu-check",
        name="gpu-check",
        stall=StallWatch(job.compute.stall_timeout_s),
        gauge=Gauge(device_uuid()) if device == "cuda" else None,
    )
    ledger.ready()
    begun = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        reports = list(pool.map(lambda shard: process_shard(shard, 1, place), plan.shards))
    wall_s = time.perf_counter() - begun
    whole = [report for report in reports if report is not None]
    peaks = [report.device_use.peak_memory_bytes for report in whole]
    known = [peak for peak in peaks if peak is not None]
    return Done(
        resolved=resolved,
        tally=sum((report.tally for report in whole), Tally()),
        wall_s=wall_s,
        startup_s=begun - start,
        peak_bytes=max(known) if known else None,
        out=out,
    )


def flop_per_token(model: Path, tokens_a_row: float) -> float:
    """Useful floating point operations of a BERT encoder for one token.

    L x (24 h^2 + 4 s h): four projections and the feed-forward part, and attention over s tokens;
    look-ups, norms and activations are not counted.
    """
    config = json.loads((model / "config.json").read_bytes())
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    return float(layers * (24 * hidden**2 + 4 * tokens_a_row * hidden))
