"""How three clouds say that a machine will be taken away: asked at its own metadata service.

- AWS, two minutes ahead: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
- GCP, 30 s: https://cloud.google.com/compute/docs/instances/spot
- Azure, 30 s at least: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import Protocol

LINK_LOCAL = "http://169.254.169.254"
GOOGLE = "http://metadata.google.internal"
ANSWER_DEADLINE_S = 2.0
# What is left when a cloud says no time, or one that can't be read.
SHORTEST_NOTICE_S = 30.0

# A proxy must not see these requests, and could not answer them.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Cloud(Protocol):
    """One cloud's metadata service."""

    name: str
    every_s: float  # how often the cloud wants to be asked

    def here(self) -> bool:
        """Say whether this machine is one of the cloud's."""

    def seconds_left(self) -> float | None:
        """Ask. Returns the seconds until the machine is taken away, or None: it is not.

        Raises:
            OSError: there was no answer.
        """


class Aws:
    """IMDSv2: a token first, then the instance's action."""

    name, every_s = "aws", 5.0

    def __init__(self, base: str = LINK_LOCAL) -> None:
        """Take the service's address."""
        self._base = base
        self._token = ""

    def here(self) -> bool:
        """See `Cloud`."""
        return _answers(self._renew)

    def seconds_left(self) -> float | None:
        """See `Cloud`."""
        for _ in range(2):
            try:
                return self._ask()
            except urllib.error.HTTPError as error:
                if error.code == HTTPStatus.NOT_FOUND:
                    return None
                if error.code != HTTPStatus.UNAUTHORIZED:
                    raise
                self._renew()
        msg = "a new token of the metadata service was refused"
        raise OSError(msg)

    def _ask(self) -> float:
        headers = {"X-aws-ec2-metadata-token": self._token}
        text = _get(f"{self._base}/latest/meta-data/spot/instance-action", headers)
        return _until(_time_of(lambda: datetime.fromisoformat(json.loads(text)["time"])))

    def _renew(self) -> None:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
        self._token = _get(f"{self._base}/latest/api/token", headers, "PUT").strip()


class Gcp:
    """A flag, and for machines with GPUs the maintenance of their host."""

    name, every_s = "gcp", 1.0

    def __init__(self, base: str = GOOGLE) -> None:
        """Take the service's address."""
        self._base = f"{base}/computeMetadata/v1/instance"

    def here(self) -> bool:
        """See `Cloud`."""
        return _answers(lambda: self._key("preempted"))

    def seconds_left(self) -> float | None:
        """See `Cloud`."""
        if self._key("preempted") == "TRUE":
            return SHORTEST_NOTICE_S
        if self._key("maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE":
            return SHORTEST_NOTICE_S
        return None

    def _key(self, name: str) -> str:
        return _get(f"{self._base}/{name}", {"Metadata-Flavor": "Google"}).strip()


class Azure:
    """Scheduled events; an eviction is one of type Preempt that names this machine."""

    name, every_s = "azure", 1.0

    def __init__(self, base: str = LINK_LOCAL) -> None:
        """Take the service's address."""
        self._base = f"{base}/metadata"
        self._machine = ""

    def here(self) -> bool:
        """See `Cloud`."""
        return _answers(self._ask_name)

    def _ask_name(self) -> None:
        where = f"{self._base}/instance/compute/name?api-version=2021-02-01&format=text"
        self._machine = _get(where, {"Metadata": "true"}).strip()

    def seconds_left(self) -> float | None:
        """See `Cloud`."""
        if not self._machine:
            self._ask_name()
        where = f"{self._base}/scheduledevents?api-version=2020-07-01"
        events = json.loads(_get(where, {"Metadata": "true"})).get("Events", [])
        mine = [
            _until(_time_of(partial(_not_before, event)))
            for event in events
            if event.get("EventType") == "Preempt" and self._machine in event.get("Resources", ())
        ]
        return min(mine, default=None)


def _not_before(event: dict[str, str]) -> datetime:
    return parsedate_to_datetime(event["NotBefore"])


def find_cloud(wanted: str, base: str | None = None) -> Cloud | None:
    """Find the cloud that this machine is one of.

    Args:
        wanted: auto, or one's name, which is then asked whether it answers or not; none: none.
        base: the metadata service's address, where it is not the cloud's own.
    """
    if wanted == "none":
        return None
    link_local, google = (LINK_LOCAL, GOOGLE) if base is None else (base, base)
    every: list[Cloud] = [Aws(link_local), Gcp(google), Azure(link_local)]
    if wanted != "auto":
        return next(cloud for cloud in every if cloud.name == wanted)
    with ThreadPoolExecutor(len(every)) as pool:
        answers = list(pool.map(lambda cloud: cloud.here(), every))
    return next((cloud for cloud, is_here in zip(every, answers, strict=True) if is_here), None)


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except OSError:
        return False
    return True


def _get(url: str, headers: dict[str, str], method: str = "GET") -> str:
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 - http, ours
    with _OPENER.open(request, timeout=ANSWER_DEADLINE_S) as response:
        body: bytes = response.read()
    return body.decode()


def _time_of(read: Callable[[], datetime]) -> datetime | None:
    """Read a time; a notice whose time can't be read is a notice."""
    try:
        found = read()
    except (ValueError, KeyError, TypeError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _until(then: datetime | None) -> float:
    return SHORTEST_NOTICE_S if then is None else max(0.0, then.timestamp() - time.time())
