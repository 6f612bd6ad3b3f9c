"""The names of everything in an output folder. Names that start with `_` are no data."""

SUCCESS = "_SUCCESS"
HOME = "_headrace"
PLAN = f"{HOME}/plan.json"
SLICES = f"{HOME}/plan-0000.parquet"
RUN = f"{HOME}/run.json"
COMMITS = f"{HOME}/commits"
REPORTS = f"{HOME}/reports"
ERRORS = f"{HOME}/errors"
WORKERS = f"{HOME}/workers"
BROKEN = f"{HOME}/broken"
TMP = f"{HOME}/tmp"  # noqa: S108 - below the output folder

FORMAT = 1
FOOTER_KEY = "headrace"


def part_name(index: int, shard_id: str) -> str:
    """Name the data file of a shard, as in `part-0000042-1f3a9c07.parquet`."""
    return f"part-{index:07d}-{shard_id}.parquet"


def report_path(part: str) -> str:
    """Where a part's report lies, relative to the output folder."""
    return f"{REPORTS}/{part}.json"


def commit_path(part: str, sha256: str) -> str:
    """Where the commit record of these bytes of a part lies, relative to the output folder."""
    return f"{COMMITS}/{part}.{sha256}.json"


def errors_path(part: str, sha256: str) -> str:
    """Where a list of a part's guilty rows lies, by its own digest, relative to the output."""
    return f"{ERRORS}/{part}.{sha256}.jsonl"
