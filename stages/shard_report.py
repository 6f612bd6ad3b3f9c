"""Step 11: a shard's report, first as far as its footer can know it, then whole."""

from collections.abc import Mapping
from datetime import datetime

import numpy as np

from headrace.schemas.plan import Shard
from headrace.schemas.report import Latency, PartFile, Rows, Seconds, ShardReport, Tally
from headrace.stages.compute import Computed
from headrace.stages.prepare import Prepared
from headrace.stages.workplace import Workplace


def report_before_write(
    shard: Shard,
    attempt: int,
    place: Workplace,
    computed: Computed,
    prepared: Prepared,
    started: datetime,
    *,
    rows: Rows,
    bytes_in: int,
    seconds: Mapping[str, float],
    charged_s: float,
) -> ShardReport:
    """Say all that is known before the file is written; its write time is null."""
    outcome, header = computed.outcome, place.header
    return ShardReport(
        shard=shard.index,
        shard_id=shard.id,
        job_fingerprint=header.job_fingerprint,
        input_fingerprint=header.input_fingerprint,
        invocation=place.invocation,
        worker=place.name,
        attempt=attempt,
        device=header.road.device,
        precision=header.road.precision,
        started=started.isoformat(),
        tally=Tally(
            shards=1,
            rows=rows,
            tokens=int(prepared.ragged.lengths.sum()),
            padded_tokens=outcome.padded_tokens,
            bytes_in=bytes_in,
            seconds=Seconds(**{**seconds, "write_s": None}),
            charged_s=charged_s,
            cost=_cost(place, charged_s),
            batches=outcome.batches,
            oom_halvings=outcome.oom_halvings,
            shapes=outcome.shapes,
            tokenized=prepared.tokenized,
            device_faults=prepared.device_faults,
        ),
        token_limit=place.budget.tokens,
        latency=_latency(computed.latencies_ms),
        device_use=computed.use,
        price=place.price,
        versions=header.versions,
    )


def report_after_commit(
    report: ShardReport,
    place: Workplace,
    file: PartFile,
    write_s: float,
    charged_s: float,
    store_faults: Mapping[str, int],
) -> ShardReport:
    """Complete the report with what is known only when the file is committed."""
    seconds = report.tally.seconds.model_copy(update={"write_s": write_s})
    tally = report.tally.model_copy(
        update={
            "bytes_out": file.size_bytes,
            "seconds": seconds,
            "charged_s": charged_s,
            "cost": _cost(place, charged_s),
            "store_faults": dict(store_faults),
        }
    )
    return report.model_copy(update={"tally": tally, "file": file})


def _cost(place: Workplace, seconds: float) -> float | None:
    return None if place.price is None else place.price.of(seconds)


def _latency(values_ms: list[float]) -> Latency | None:
    if not values_ms:
        return None
    p50, p95, p99 = np.percentile(values_ms, [50, 95, 99])
    return Latency(p50_ms=float(p50), p95_ms=float(p95), p99_ms=float(p99))
