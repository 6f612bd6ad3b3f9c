"""What `headrace doctor` found on a machine."""

from headrace.schemas.plan import Value


class Machine(Value):
    """What was found."""

    platform: str
    cores: int
    memory_bytes: int
    gpus: tuple[str, ...]
    device: str
    bf16_native: bool
    packages: dict[str, str]
    optional: dict[str, str | None]
    notes: tuple[str, ...]
