"""What `headrace doctor` found on a machine."""

from headrace.schemas.plan import Value


class GpuRoom(Value):
    """A GPU, or a MIG instance, and the room that it has for a model and its batches now."""

    id: str
    name: str
    total_bytes: int | None  # None where it shares the host's memory
    free_bytes: int | None
    pool_bytes: int | None  # cuDF's share at most
    headroom_bytes: int | None

    @property
    def left_bytes(self) -> int | None:
        """What is left for weights and activations."""
        if self.free_bytes is None or self.pool_bytes is None or self.headroom_bytes is None:
            return None
        return max(0, self.free_bytes - self.pool_bytes - self.headroom_bytes)


class Machine(Value):
    """What was found."""

    platform: str
    cores: int
    memory_bytes: int
    gpus: tuple[GpuRoom, ...]
    device: str
    bf16_native: bool
    packages: dict[str, str]
    optional: dict[str, str | None]
    notes: tuple[str, ...]
