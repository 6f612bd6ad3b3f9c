"""headrace: offline batch inference for large datasets, committed exactly once, with the bill.

    import headrace as hr

    run = hr.run("job.yaml")     # a Job, its plain data, or a job file
    hr.verify("out/demo")        # rows in = good + null + errors, proven from the files
    hr.report("out/demo")        # where the time and the money went

Importing it loads neither torch nor Dask nor Prefect: each name below is loaded when it is used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.flows.api import plan, report, run, status, verify
    from headrace.flows.job_file import load_job
    from headrace.schemas.errors import (
        DamagedError,
        HeadraceError,
        JobError,
        OtherRunError,
        OutputError,
        ShardError,
    )
    from headrace.schemas.job import Job

__version__ = "0.1.0"
__all__ = [
    "DamagedError",
    "HeadraceError",
    "Job",
    "JobError",
    "OtherRunError",
    "OutputError",
    "ShardError",
    "__version__",
    "load_job",
    "plan",
    "report",
    "run",
    "status",
    "verify",
]

_ERRORS = "headrace.schemas.errors"
_API = "headrace.flows.api"
_HOMES = {
    "DamagedError": _ERRORS,
    "HeadraceError": _ERRORS,
    "Job": "headrace.schemas.job",
    "JobError": _ERRORS,
    "OtherRunError": _ERRORS,
    "OutputError": _ERRORS,
    "ShardError": _ERRORS,
    "load_job": "headrace.flows.job_file",
    "plan": _API,
    "report": _API,
    "run": _API,
    "status": _API,
    "verify": _API,
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
