"""How to reach a scheduler."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Transport:
    """TLS's files (PEM), all three or none; `insecure`: without TLS beyond this machine, too."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False


PLAIN = Transport()
