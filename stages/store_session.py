"""What headrace adds to a session with S3: a count of faults, and credentials read anew.

Both are handlers of the event that botocore has for the answer to each request, before it decides
whether to send the request again
(https://docs.aws.amazon.com/boto3/latest/guide/events.html; `needs-retry`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from s3fs import S3FileSystem

SERVER_ERROR, TOO_MANY, CONFLICT = 500, 429, 409
# An answer that says that a key which was good before is no longer.
EXPIRED = frozenset(("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"))
AT_ONCE_S = 0.0

# What a thread asks of a store runs on the thread of s3fs, but in the context of who asked.
_FAULTS: ContextVar[Counter[str] | None] = ContextVar("headrace_store_faults", default=None)


@contextmanager
def counted_faults() -> Iterator[Counter[str]]:
    """Count what the store refuses, and what breaks off, of the requests of this thread.

    The names are S3's error codes and the classes of botocore's exceptions. Almost all of these
    requests are sent again, by botocore (3 times) and around that by s3fs (5 times). What aiohttp
    sends again by itself, and a body that breaks off after its headers, is not seen here.
    """
    found: Counter[str] = Counter()
    token = _FAULTS.set(found)
    try:
        yield found
    finally:
        _FAULTS.reset(token)


def attend(fs: "S3FileSystem") -> None:
    """Give a file system that has not connected yet a session with the two handlers."""
    from aiobotocore.session import AioSession

    if fs.session is None:
        fs.session = session = AioSession(**fs.kwargs)
        session.register("needs-retry.s3", _note_fault)
        session.register("needs-retry.s3", partial(_renew, session))


def _note_fault(
    response: tuple[Any, Mapping[str, Any]] | None = None,
    caught_exception: Exception | None = None,
    **_: object,
) -> None:
    counter = _FAULTS.get()
    if counter is None:
        return
    if caught_exception is not None:
        counter[type(caught_exception).__name__] += 1
    elif response is not None:
        status = response[0].status_code
        if status >= SERVER_ERROR or status in (TOO_MANY, CONFLICT):
            counter[_code(response) or str(status)] += 1


def _code(response: tuple[Any, Mapping[str, Any]]) -> str | None:
    code: str | None = response[1].get("Error", {}).get("Code")
    return code


async def _renew(
    session: Any,  # noqa: ANN401 - aiobotocore has no types
    attempts: int,
    response: tuple[Any, Mapping[str, Any]] | None = None,
    **_: object,
) -> float | None:
    """Read the credentials again, where what a user renews from outside has expired.

    Those of a role renew themselves. A file of credentials, or a variable, is read once by
    botocore. What the job itself gives as `key` and `secret` stays as it is.

    Returns:
        When to send the request again, signed anew; None: leave it to the others.
    """
    if response is None or _code(response) not in EXPIRED or attempts > 1:
        return None
    from aiobotocore.credentials import AioCredentials
    from aiobotocore.session import AioSession

    ours = await session.get_credentials()
    fresh = await AioSession(profile=session.profile).get_credentials()
    if type(ours) is not AioCredentials or fresh is None:
        return None
    now = await fresh.get_frozen_credentials()
    if (now.access_key, now.token) == (ours.access_key, ours.token):
        return None
    ours.access_key, ours.secret_key, ours.token = now.access_key, now.secret_key, now.token
    return AT_ONCE_S
