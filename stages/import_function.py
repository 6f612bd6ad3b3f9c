"""Find a user's own function by MODULE:FUNCTION."""

import importlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from headrace.schemas.errors import JobError
from headrace.stages.wording import in_short


def import_function(name: str, key: str) -> Callable[..., Any]:
    """Import what a key of the job names; a method of a class will do.

    Args:
        name: MODULE:FUNCTION.
        key: the job's key, for messages.

    Raises:
        JobError: it can't be imported, or called.
    """
    module, _, attribute = name.partition(":")
    try:
        found = attrgetter(attribute)(importlib.import_module(module))
    except Exception as error:  # a module may raise anything while it is imported
        msg = (
            f"{key}: expected MODULE:FUNCTION that the workers can import, got {name!r} "
            f"({in_short(error)}). Install the module there, or put its folder on PYTHONPATH."
        )
        raise JobError(msg) from error
    if not callable(found):
        msg = f"{key}: expected {name} to be a function, got a {type(found).__name__}"
        raise JobError(msg)
    function: Callable[..., Any] = found
    return function
