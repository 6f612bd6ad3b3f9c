"""What `headrace plan` says before anything runs. What is estimated is called so."""

from headrace.schemas.plan import MemoryFit, ResultFacts, Road, ShapeGrid, Value

# Three shards are open at once (read, computed, written), each held about twice while it is built.
SHARD_COPIES = 6


class Preview(Value):
    """A plan that nothing was written of."""

    name: str
    files: int
    rows: int
    shards: int
    largest_shard_rows: int
    grid: ShapeGrid
    road: Road
    result: ResultFacts
    estimated_tokens: int
    estimated_forward_s: float | None  # of one worker like this machine; start-up not counted
    estimated_cost: float | None
    currency: str | None
    weights_bytes: int
    shard_result_bytes: int
    free_memory_bytes: int  # of the host
    gpu_memory: MemoryFit | None = None  # None on a CPU
    job_fingerprint: str
    input_fingerprint: str
    output: str

    @property
    def needed_memory_bytes(self) -> int:
        """Estimated, of the host: the results of the shards that are open at once, and weights."""
        weights = self.weights_bytes if self.gpu_memory is None else 0
        return weights + SHARD_COPIES * self.shard_result_bytes

    @property
    def fits(self) -> bool:
        """Whether the estimate fits into the memory that is free now."""
        return self.needed_memory_bytes <= self.free_memory_bytes
