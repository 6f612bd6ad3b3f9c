"""The bill: what a shard, a worker and a run took. What adds up, adds with `+`.

Every field carries its unit. What was not measured is null, never zero.
"""

from collections import Counter

from pydantic import ConfigDict, Field

from headrace.schemas.plan import Value


def _plus(left: float | None, right: float | None) -> float | None:
    """Add two figures of which either may be unknown, which makes the sum unknown."""
    return None if left is None or right is None else left + right


class Rows(Value):
    """Rows of the input and what became of them: in = good + null + errors, always."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    in_: int = Field(default=0, alias="in")
    good: int = 0
    null: int = 0
    errors: int = 0

    def __add__(self, other: "Rows") -> "Rows":
        """Add row counts."""
        return Rows(
            in_=self.in_ + other.in_,
            good=self.good + other.good,
            null=self.null + other.null,
            errors=self.errors + other.errors,
        )

    @property
    def adds_up(self) -> bool:
        """Whether no row was lost or counted twice."""
        return self.in_ == self.good + self.null + self.errors


class Seconds(Value):
    """Where a shard's time went, in seconds. Spans of different shards overlap."""

    read_s: float = 0.0
    preprocess_s: float = 0.0
    tokenize_s: float = 0.0
    wait_s: float = 0.0  # for the device thread
    h2d_s: float = 0.0  # host to device
    forward_s: float = 0.0
    post_s: float = 0.0
    d2h_s: float = 0.0  # device to host
    write_s: float | None = 0.0  # None where the report was rebuilt after a crash

    def __add__(self, other: "Seconds") -> "Seconds":
        """Add span by span."""
        mine, theirs = self.model_dump(), other.model_dump()
        return Seconds(**{name: _plus(mine[name], theirs[name]) for name in mine})


class Price(Value):
    """What one worker costs, and who says so."""

    worker_per_hour: float
    currency: str
    source: str
    date: str | None

    def of(self, seconds: float) -> float:
        """Price this many worker seconds."""
        return self.worker_per_hour * seconds / 3600.0


class Tally(Value):
    """The part of a report that adds up."""

    shards: int = 0
    rows: Rows = Rows()
    tokens: int = 0
    padded_tokens: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: Seconds = Seconds()
    charged_s: float = 0.0  # worker seconds attributed to these shards (the ledger's rule)
    cost: float | None = 0.0
    batches: int = 0
    oom_halvings: int = 0
    shapes: dict[str, int] = Field(default_factory=dict)  # batches by shape, as "rows x length"
    tokenized: dict[str, int] = Field(default_factory=dict)  # rows, by what tokenized them
    # What the GPU left to the host, by exception class and stage.
    device_faults: dict[str, int] = Field(default_factory=dict)
    # Requests that a store refused or that broke off, almost all sent again; by what was said.
    store_faults: dict[str, int] = Field(default_factory=dict)

    def __add__(self, other: "Tally") -> "Tally":
        """Add two tallies; an unknown cost makes the sum unknown."""
        return Tally(
            shards=self.shards + other.shards,
            rows=self.rows + other.rows,
            tokens=self.tokens + other.tokens,
            padded_tokens=self.padded_tokens + other.padded_tokens,
            bytes_in=self.bytes_in + other.bytes_in,
            bytes_out=self.bytes_out + other.bytes_out,
            seconds=self.seconds + other.seconds,
            charged_s=self.charged_s + other.charged_s,
            cost=_plus(self.cost, other.cost),
            batches=self.batches + other.batches,
            oom_halvings=self.oom_halvings + other.oom_halvings,
            shapes=dict(Counter(self.shapes) + Counter(other.shapes)),
            tokenized=dict(Counter(self.tokenized) + Counter(other.tokenized)),
            device_faults=dict(Counter(self.device_faults) + Counter(other.device_faults)),
            store_faults=dict(Counter(self.store_faults) + Counter(other.store_faults)),
        )

    @property
    def padding_share(self) -> float | None:
        """The share of computed tokens that were padding; None before any was computed."""
        return 1.0 - self.tokens / self.padded_tokens if self.padded_tokens else None


class Latency(Value):
    """Milliseconds that the batches of a shard took on the device."""

    p50_ms: float
    p95_ms: float
    p99_ms: float


class DeviceUse(Value):
    """What the device did while it held the shard; null where the machine can't tell."""

    name: str
    utilization: float | None  # 0 to 1; on a CPU: process time over wall time and cores
    peak_memory_bytes: int | None  # on a GPU: used by all that runs on it
    energy_wh: float | None
    power_w: float | None = None  # the mean
    peak_allocated_bytes: int | None = None  # by torch, on a GPU
    note: str | None = None  # why less was measured than the device could tell


class PartFile(Value):
    """The committed bytes. `version` only says whether a quick check may trust the file."""

    name: str
    sha256: str
    size_bytes: int
    version: str  # what changes with the bytes: a file's time in ns, or a store's ETag


class ShardReport(Value):
    """`_headrace/reports/<part>.json`; the footer of the part holds the same up to the write."""

    format: int = 1
    shard: int
    shard_id: str
    job_fingerprint: str
    input_fingerprint: str
    invocation: str
    worker: str
    attempt: int
    device: str
    precision: str
    started: str  # UTC, ISO 8601
    tally: Tally
    token_limit: int | None = None  # of a batch, since memory ran out on this worker
    latency: Latency | None  # None for a shard without a batch
    device_use: DeviceUse
    price: Price | None
    versions: dict[str, str]
    file: PartFile | None = None  # None inside the footer, which the file can't describe

    @property
    def cost_per_1k_rows(self) -> float | None:
        """Cost per 1,000 input rows."""
        return per(self.tally.cost, self.tally.rows.in_, 1_000)

    @property
    def cost_per_good_row(self) -> float | None:
        """Cost per row that has a result."""
        return per(self.tally.cost, self.tally.rows.good, 1)

    @property
    def cost_per_1m_tokens(self) -> float | None:
        """Cost per million tokens, padding not counted."""
        return per(self.tally.cost, self.tally.tokens, 1_000_000)


class WorkerRecord(Value):
    """`_headrace/workers/<name>.json`: the life of one worker process, journalled every 10 s.

    `worker_s` comes from the process's own lifetime; the other figures come from spans.
    """

    name: str
    invocation: str
    host: str
    pid: int
    started_unix_s: float  # when the process was created
    last_seen_unix_s: float
    closed: bool  # False: killed, so its end is estimated by its last heartbeat
    startup_s: float
    idle_s: float
    wasted_s: float  # attempts that failed, lost a race or were cut off
    shards_s: float
    price: Price | None

    @property
    def worker_s(self) -> float:
        """Seconds that the process lived."""
        return self.last_seen_unix_s - self.started_unix_s


class Ledger(Value):
    """Both sides of the bill in worker seconds: worker_s = shards + startup + idle + wasted."""

    worker_s: float
    shards_s: float
    startup_s: float
    idle_s: float
    wasted_s: float
    estimated: bool  # a killed worker's end was estimated by its last heartbeat


class Cost(Value):
    """Money, unrounded; null without a price."""

    total: float | None
    per_1k_rows: float | None
    per_1m_tokens: float | None
    per_good_row: float | None
    currency: str | None


class ShardCounts(Value):
    """How many shards the plan has, and what this invocation did with them."""

    total: int
    committed: int
    skipped: int
    failed: tuple[str, ...] = ()


class RunReport(Value):
    """`_headrace/run.json`, and what `headrace run --json` prints."""

    status: str  # done | failed | interrupted
    name: str
    rows: Rows  # of the whole output
    shards: ShardCounts  # of this invocation
    seconds: float
    startup_s: float  # until the first worker was ready
    rows_per_s: float | None  # rows of this invocation over seconds - startup_s
    tokens: int
    padding_share: float | None
    cost: Cost  # of the whole output, all invocations
    ledger: Ledger
    output: str
    report: str
    reason: str | None = None  # why a run that is not done ended
    failures: dict[str, str] = Field(default_factory=dict)
    invocation: str
    device: str | None
    precision: str | None
    tally: Tally


def per(cost: float | None, count: int, unit: int) -> float | None:
    """Cost per `unit` of what was counted; None when the cost is unknown or nothing was."""
    return None if cost is None or count == 0 else cost / count * unit
