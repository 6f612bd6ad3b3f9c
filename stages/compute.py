"""Steps 7 to 9 for one shard: every batch through the device, on the device thread."""

import platform
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from headrace.schemas.report import DeviceUse
from headrace.stages.batch import StaticBatch
from headrace.stages.forward import BatchResult
from headrace.stages.handover import RaggedOnDevice
from headrace.stages.isolate import Collect, Outcome, run_batches
from headrace.stages.nvml import Gauge
from headrace.stages.results import Results
from headrace.stages.spans import Spans
from headrace.stages.workplace import Workplace


@dataclass(frozen=True)
class Computed:
    """What the device made of a shard."""

    results: Results
    outcome: Outcome
    latencies_ms: list[float]
    seconds: Mapping[str, float]
    use: DeviceUse


def compute(
    ragged: RaggedOnDevice,
    batches: Sequence[StaticBatch],
    rows: int,
    place: Workplace,
    part: str,
) -> Computed:
    """Run a shard's batches; isolate the rows that can't be computed.

    Args:
        ragged: the tokens of all rows of the shard.
        batches: which rows to compute, in which shapes.
        rows: N, how many rows the shard has.
        place: the worker's model and device.
        part: the shard's name.

    Raises:
        ShardError: the fault is not in the rows.
        PreemptedError: the worker is about to end, too soon for this shard.
    """
    forward, budget = place.forward, place.budget
    forward.spans = Spans()
    results = Results(rows, place.header.result)
    pace = _Pace(ragged, batches, place, part)
    meter = _start_meter(place)
    limits = [limit for limit in (forward.token_limit, budget.tokens) if limit is not None]
    limit = min(limits, default=None)
    try:
        outcome = run_batches(batches, pace.launch, results.place, forward.depth, limit)
    finally:
        place.stall.rest()
        use = meter()
    if outcome.oom_halvings:  # what was too much for one shard is so for the next
        budget.tokens = outcome.token_limit
    return Computed(results, outcome, pace.latencies_ms, forward.spans.seconds, use)


class _Pace:
    """Launches a shard's batches, times them, and looks at each boundary whether to go on."""

    def __init__(
        self,
        ragged: RaggedOnDevice,
        batches: Sequence[StaticBatch],
        place: Workplace,
        part: str,
    ) -> None:
        self._ragged, self._place, self._part = ragged, place, part
        self._all_tokens = sum(batch.padded_tokens for batch in batches)
        self._done_tokens = 0
        self._start = time.perf_counter()
        self.latencies_ms: list[float] = []

    def launch(self, batch: StaticBatch) -> Collect:
        """Begin a batch."""
        start = time.perf_counter()
        self._place.notice.check(start - self._start, self._done_tokens, self._all_tokens)
        self._place.stall.step(self._part)
        collect = self._place.forward.launch(self._ragged, batch)

        def timed() -> BatchResult:
            self._place.stall.step(self._part)
            result = collect()
            self.latencies_ms.append((time.perf_counter() - start) * 1e3)
            self._done_tokens += batch.padded_tokens
            return result

        return timed


def _start_meter(place: Workplace) -> Callable[[], DeviceUse]:
    """Begin to watch the device; what is returned says what it did since."""
    if place.gauge is not None:
        return _watch_gpu(place.gauge)
    wall_s, cpu_s = time.perf_counter(), time.process_time()

    def cpu_use() -> DeviceUse:
        passed_s = time.perf_counter() - wall_s
        used = (time.process_time() - cpu_s) / (passed_s * place.device.threads)
        return DeviceUse(
            name=platform.processor() or platform.machine(),
            utilization=min(1.0, used),
            peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            energy_wh=None,
        )

    return cpu_use


def _watch_gpu(gauge: Gauge) -> Callable[[], DeviceUse]:
    torch.cuda.reset_peak_memory_stats()
    gauge.start()

    def gpu_use() -> DeviceUse:
        reading = gauge.stop()
        return DeviceUse(
            name=torch.cuda.get_device_name(),
            utilization=reading.utilization,
            peak_memory_bytes=reading.peak_memory_bytes,
            energy_wh=reading.energy_wh,
            power_w=reading.power_w,
            peak_allocated_bytes=torch.cuda.max_memory_allocated(),
            note=reading.reason,
        )

    return gpu_use
