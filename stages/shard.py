"""The journey of one shard, from its rows in the input to its committed file and report."""

import json
import platform
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from tokenizers import Tokenizer

from headrace.schemas import layout
from headrace.schemas.plan import PlanHeader, Shard
from headrace.schemas.report import (
    DeviceUse,
    Latency,
    Price,
    Rows,
    Seconds,
    ShardReport,
    Tally,
)
from headrace.stages.batch import Batch, make_batches
from headrace.stages.commit import commit
from headrace.stages.device_thread import DeviceThread
from headrace.stages.encode import encode
from headrace.stages.forward import BatchResult, Forward
from headrace.stages.isolate import Outcome, run_batches
from headrace.stages.ledger import Account, WorkerLedger
from headrace.stages.preprocess import Texts, model_texts
from headrace.stages.read import read_slices, stored_bytes
from headrace.stages.results import Results, output_table, reasons_column
from headrace.stages.spans import Spans
from headrace.stages.store import as_json, own_tmp, replace
from headrace.stages.tokenize import Tokens, tokenize


@dataclass(frozen=True)
class Workplace:
    """All that one worker process holds for one run."""

    out: Path
    base: Path  # of the input's files
    header: PlanHeader
    tokenizer: Tokenizer
    lowercase: bool
    forward: Forward
    device: DeviceThread
    ledger: WorkerLedger
    price: Price | None
    invocation: str
    name: str

    @property
    def passed_columns(self) -> list[str]:
        """The input columns that the output keeps."""
        wanted = self.header.job.output.columns
        return list(self.header.dataset_schema.names if wanted is None else wanted)


@dataclass(frozen=True)
class Computed:
    """What the device made of a shard."""

    results: Results
    outcome: Outcome
    latencies_ms: list[float]
    seconds: Mapping[str, float]
    use: DeviceUse


def process_shard(shard: Shard, attempt: int, place: Workplace) -> ShardReport | None:
    """Take one shard all the way. Returns its report, or None when another attempt was first.

    Raises:
        ShardError: the shard can't be computed, and trying again would not help.
        OSError: a file could not be read or written.
    """
    account = place.ledger.open(shard.part)
    report = None
    try:
        report = _journey(shard, attempt, place, account)
    finally:
        charged_s = place.ledger.close(account, wasted=report is None)
    if report is None:
        return None
    tally = report.tally.model_copy(
        update={
            "charged_s": charged_s,
            "cost": None if place.price is None else place.price.of(charged_s),
        }
    )
    final = report.model_copy(update={"tally": tally})
    replace(place.out / layout.report_path(shard.part), as_json(final), own_tmp(place.out))
    return final


def _journey(
    shard: Shard, attempt: int, place: Workplace, account: Account
) -> ShardReport | None:
    started = datetime.now(UTC)
    spans = Spans()
    table = _read(shard, place, spans)
    with spans("preprocess_s"):
        texts = model_texts(table, place.header.job.input.text_columns)
    with spans("tokenize_s"):
        tokens = tokenize(texts.values, place.tokenizer, lowercase=place.lowercase)
    faults = texts.faults | tokens.faults
    batches = _batches(texts, tokens, place)
    computed, waited_s = place.device.run_for(
        place.ledger, account, lambda: _compute(tokens, batches, table.num_rows, place)
    )
    spans.seconds["wait_s"] = waited_s
    for name, seconds in computed.seconds.items():
        spans.seconds[name] += seconds
    faults = dict(sorted((faults | computed.outcome.faults).items()))
    report = _report(shard, attempt, place, computed, tokens, started)
    with spans("write_s"):
        nulls = _null_inputs(texts)
        rows = _count(table.num_rows, nulls, faults)
        tally = report.tally.model_copy(
            update={
                "rows": rows,
                "bytes_in": stored_bytes(place.base, shard.slices, _read_columns(place)),
                "charged_s": place.ledger.charged(account),
                "seconds": Seconds(**{**spans.seconds, "write_s": None}),
            }
        )
        report = report.model_copy(update={"tally": tally})
        output = _output(table, computed, nulls, faults, place)
        _list_faults(shard, faults, place)
        tmp = own_tmp(place.out)
        tmp_file = encode(output, tmp, place.header.job.output.compression, report)
        file = commit(tmp_file, place.out, shard.part, report, tmp)
    if file is None:
        return None
    tally = tally.model_copy(
        update={"bytes_out": file.size_bytes, "seconds": Seconds(**spans.seconds)}
    )
    return report.model_copy(update={"tally": tally, "file": file})


def _read_columns(place: Workplace) -> list[str]:
    return list(dict.fromkeys([*place.passed_columns, *place.header.job.input.text_columns]))


def _read(shard: Shard, place: Workplace, spans: Spans) -> pa.Table:
    with spans("read_s"):
        schema = place.header.dataset_schema
        return read_slices(place.base, shard.slices, schema, _read_columns(place))


def _null_inputs(texts: Texts) -> npt.NDArray[np.int64]:
    rows = np.flatnonzero(texts.values.is_null().to_numpy(zero_copy_only=False))
    return rows[~np.isin(rows, list(texts.faults))]


def _batches(texts: Texts, tokens: Tokens, place: Workplace) -> list[Batch]:
    has_text = texts.values.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(has_text)
    rows = rows[~np.isin(rows, list(tokens.faults))]
    return list(make_batches(rows, tokens.lengths, place.header.grid.shapes))


def _compute(tokens: Tokens, batches: list[Batch], rows: int, place: Workplace) -> Computed:
    """Run on the device thread."""
    forward = place.forward
    forward.spans = Spans()
    results = Results(rows, place.header.result)
    latencies_ms: list[float] = []
    ragged = forward.put(tokens)

    def infer(batch: Batch) -> BatchResult:
        start = time.perf_counter()
        result = forward.run(ragged, batch)
        latencies_ms.append((time.perf_counter() - start) * 1e3)
        return result

    wall, cpu = time.perf_counter(), time.process_time()
    outcome = run_batches(batches, infer, results.place)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    use = _device_use(place, wall, cpu)
    return Computed(results, outcome, latencies_ms, forward.spans.seconds, use)


def _device_use(place: Workplace, wall_s: float, cpu_s: float) -> DeviceUse:
    if place.forward.device == "cuda":
        return DeviceUse(
            name=torch.cuda.get_device_name(),
            utilization=None,
            peak_memory_bytes=torch.cuda.max_memory_allocated(),
            energy_wh=None,
        )
    return DeviceUse(
        name=platform.processor() or platform.machine(),
        utilization=min(1.0, cpu_s / (wall_s * place.device.threads)) if wall_s > 0 else None,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        energy_wh=None,
    )


def _count(rows: int, nulls: npt.NDArray[np.int64], faults: Mapping[int, str]) -> Rows:
    return Rows(in_=rows, good=rows - nulls.size - len(faults), null=nulls.size, errors=len(faults))


def _output(
    table: pa.Table,
    computed: Computed,
    nulls: npt.NDArray[np.int64],
    faults: Mapping[int, str],
    place: Workplace,
) -> pa.Table:
    drop = place.header.job.errors.mode == "drop"
    return output_table(
        table.select(place.passed_columns),
        computed.results.columns(),
        reasons_column(table.num_rows, nulls, faults),
        list(faults) if drop else [],
    )


def _list_faults(shard: Shard, faults: Mapping[int, str], place: Workplace) -> None:
    """List the guilty rows by where they stand in the input; never their content."""
    if not faults:
        return
    lines, first = [], 0
    for piece in shard.slices:
        for row in sorted(row for row in faults if first <= row < first + piece.rows):
            entry = {
                "file": piece.path,
                "row_group": piece.row_group,
                "row": piece.row_start + row - first,
                "reason": faults[row],
            }
            lines.append(json.dumps(entry, ensure_ascii=False))
        first += piece.rows
    text = "\n".join(lines) + "\n"
    replace(place.out / layout.errors_path(shard.part), text.encode(), own_tmp(place.out))


def _report(
    shard: Shard,
    attempt: int,
    place: Workplace,
    computed: Computed,
    tokens: Tokens,
    started: datetime,
) -> ShardReport:
    outcome = computed.outcome
    return ShardReport(
        shard=shard.index,
        shard_id=shard.id,
        job_fingerprint=place.header.job_fingerprint,
        input_fingerprint=place.header.input_fingerprint,
        invocation=place.invocation,
        worker=place.name,
        attempt=attempt,
        device=place.header.road.device,
        precision=place.header.road.precision,
        started=started.isoformat(),
        tally=Tally(
            shards=1,
            tokens=int(tokens.offsets[-1]),
            padded_tokens=outcome.padded_tokens,
            batches=outcome.batches,
            oom_halvings=outcome.oom_halvings,
            shapes=outcome.shapes,
            cost=None,
        ),
        latency=_latency(computed.latencies_ms),
        device_use=computed.use,
        price=place.price,
        versions=place.header.versions,
    )


def _latency(values_ms: list[float]) -> Latency | None:
    if not values_ms:
        return None
    p50, p95, p99 = np.percentile(values_ms, [50, 95, 99])
    return Latency(p50_ms=float(p50), p95_ms=float(p95), p99_ms=float(p99))
