"""All that one worker process holds for one run."""

from dataclasses import dataclass, field

from headrace.schemas.plan import PlanHeader
from headrace.schemas.report import Price
from headrace.stages.device_thread import DeviceThread
from headrace.stages.forward import Runner
from headrace.stages.ledger import WorkerLedger
from headrace.stages.notice import Notice
from headrace.stages.nvml import Gauge
from headrace.stages.places import AnyPath
from headrace.stages.prepare import TextRoad
from headrace.stages.read import Source
from headrace.stages.stall import StallWatch


@dataclass
class Budget:
    """How many padded tokens a batch may have on this worker: less, once memory has run out."""

    tokens: int | None = None  # None: as the plan says


@dataclass(frozen=True)
class Workplace:
    """Plan, model, device and ledger: set up once, used by every shard."""

    out: AnyPath
    source: Source
    header: PlanHeader
    texts: TextRoad
    forward: Runner
    device: DeviceThread
    ledger: WorkerLedger
    price: Price | None
    invocation: str
    name: str
    stall: StallWatch
    gauge: Gauge | None = None  # of the GPU; None on a CPU
    notice: Notice = field(default_factory=Notice)
    budget: Budget = field(default_factory=Budget)

    @property
    def passed_columns(self) -> list[str]:
        """The input columns that the output keeps."""
        wanted = self.header.job.output.columns
        return list(self.header.dataset_schema.names if wanted is None else wanted)

    @property
    def read_columns(self) -> list[str]:
        """The input columns that are read as Arrow."""
        return self.passed_columns if self.texts.reads else self.input_columns

    @property
    def input_columns(self) -> list[str]:
        """The input columns that are read: those kept, and those that the model reads."""
        return list(dict.fromkeys([*self.passed_columns, *self.header.job.input.text_columns]))
