"""Step 7 on CUDA: static batches as CUDA graphs, results copied out while the next is computed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from headrace.schemas.errors import HeadraceError
from headrace.schemas.plan import BatchSize, PackSize, ResultFacts
from headrace.stages.batch import StaticBatch
from headrace.stages.cuda import Cuda, Event
from headrace.stages.forward import BatchResult, Forward, Outputs, batch_result
from headrace.stages.grid import blank_batch, blank_tokens
from headrace.stages.handover import RaggedOnDevice
from headrace.stages.isolate import is_out_of_memory
from headrace.stages.spans import Spans
from headrace.stages.sticky import end_if_sticky

DEPTH = 2  # one batch is computed, the results of the one before are copied


@dataclass(frozen=True)
class _Graph:
    """A captured size: what it reads, what runs it, what it gives."""

    given: tuple[torch.Tensor, ...]  # as a batch of the size lays it out
    replay: Callable[[], None]
    outputs: Outputs


@dataclass
class _Slot:
    """Where one batch's results wait: on the device for the copy, on the host to be placed."""

    device: dict[str, torch.Tensor] = field(default_factory=dict)  # by the names of `Outputs`
    host: dict[str, torch.Tensor] = field(default_factory=dict)

    def fit(self, outputs: Outputs, cuda: Cuda) -> None:
        """Make room for as many rows as a batch has."""
        if not self.device or self.device["values"].shape[0] < outputs.values.shape[0]:
            tensors = outputs.present().items()
            device = {name: cuda.empty(one.shape, one.dtype) for name, one in tensors}
            host = {name: cuda.pinned(one.shape, one.dtype) for name, one in tensors}
            self.device, self.host = device, host


class CudaForward:
    """A model on the GPU. Runs what `Forward` runs, by graphs where a size was captured."""

    depth = DEPTH

    def __init__(self, inner: Forward, cuda: Cuda) -> None:
        """Take a loaded model; nothing is captured yet."""
        self.inner, self.cuda = inner, cuda
        self.token_limit: int | None = None  # of a batch, where larger ones ran out of memory
        self.spans = Spans()
        self._ranges = Spans()  # names what the host begins, for a profiler; the GPU tells times
        self._graphs: dict[BatchSize | PackSize, _Graph] = {}
        self._slots = [_Slot() for _ in range(DEPTH)]

    @property
    def device(self) -> str:
        """The device's kind."""
        return self.inner.device

    @property
    def module(self) -> torch.nn.Module:
        """The model."""
        return self.inner.module

    @property
    def facts(self) -> ResultFacts:
        """What the model gives."""
        return self.inner.facts

    @property
    def captured(self) -> int:
        """How many sizes run as graphs."""
        return len(self._graphs)

    def warm_up(self, sizes: Sequence[BatchSize | PackSize]) -> None:
        """Capture every size of the grid, largest first, so that the others fit into its memory.

        A size that runs out of memory is not run on this worker: its batches are halved.
        """
        for size in sizes:
            if not self._captured(size):
                self.cuda.give_back()
                self.token_limit = max(1, size.tokens // 2)

    def _captured(self, size: BatchSize | PackSize) -> bool:
        """Capture a size, unless memory runs out. All that it held is let go with the error."""
        try:
            self._graphs[size] = self._capture(size)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            end_if_sticky(error)
            return False
        return True

    def _capture(self, size: BatchSize | PackSize) -> _Graph:
        with torch.inference_mode():
            with self.cuda.computing():
                blank, tokens = blank_batch(size), blank_tokens(self.device)
                given = blank.lay_out(tokens, self.inner.pad_id, self.cuda.to_device)
            replay, outputs = self.cuda.capture(lambda: self._compute(given))
        return _Graph(given, replay, outputs)

    def _compute(self, given: tuple[torch.Tensor, ...]) -> Outputs:
        return self.inner.post(self.inner.run(*given), *given)

    def launch(self, ragged: RaggedOnDevice, batch: StaticBatch) -> Callable[[], BatchResult]:
        """Begin one batch; what is returned waits for its result.

        Raises:
            RuntimeError: (or whatever the model raises) the batch can't be computed.
            HeadraceError: more batches are under way than have a place for their results.
        """
        if not self._slots:
            msg = f"expected at most {DEPTH} batches under way on the GPU, got one more"
            raise HeadraceError(msg)
        slot = self._slots.pop()
        try:
            with torch.inference_mode(), self.cuda.computing(), self._ranges("forward_s"):
                begun = self.cuda.mark()
                outputs = self._run(
                    batch.size, batch.lay_out(ragged, self.inner.pad_id, self.cuda.to_device)
                )
                slot.fit(outputs, self.cuda)
                # The next replay may overwrite the graph's own memory before it is copied out.
                for name, output in outputs.present().items():
                    slot.device[name][: batch.height].copy_(output)
                computed = self.cuda.mark()
                real = batch.rows.size
                done = self.cuda.copy_out(
                    [(slot.host[name][:real], one[:real]) for name, one in slot.device.items()]
                )
        except BaseException as error:
            end_if_sticky(error)
            self._slots.append(slot)
            raise
        return partial(self._collect, slot, real, (begun, computed, done))

    def _run(self, size: BatchSize | PackSize, given: tuple[torch.Tensor, ...]) -> Outputs:
        graph = self._graphs.get(size)
        if graph is None:  # a piece of a batch that was cut down
            return self._compute(given)
        for static, one in zip(graph.given, given, strict=True):
            static.copy_(one)
        graph.replay()
        return graph.outputs

    def _collect(self, slot: _Slot, rows: int, events: tuple[Event, Event, Event]) -> BatchResult:
        """Wait for a batch's results. They are to be placed before the next batch is begun."""
        begun, computed, done = events
        self._slots.append(slot)
        try:
            with self._ranges("d2h_s"):
                self.cuda.wait(done)
        except RuntimeError as error:
            end_if_sticky(error)
            raise
        self.spans.seconds["forward_s"] += self.cuda.seconds(begun, computed)
        self.spans.seconds["d2h_s"] += self.cuda.seconds(computed, done)
        return batch_result({name: tensor[:rows] for name, tensor in slot.host.items()})
