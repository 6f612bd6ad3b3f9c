"""Step 1b: learn of every input file what the plan needs, in parallel, each format in its way."""

from concurrent.futures import ThreadPoolExecutor

from headrace.schemas.job import InputSpec
from headrace.stages.arrow_file import arrow_footer
from headrace.stages.csv_file import csv_footer
from headrace.stages.footer import Footer
from headrace.stages.jsonl_file import jsonl_footer
from headrace.stages.listing import Listed
from headrace.stages.parquet_file import parquet_footer

READERS = 16  # footers are small: waiting for the disk dominates


def read_footers(listed: list[Listed], spec: InputSpec) -> list[Footer]:
    """Read the footers of these files, in their order; text files, which have none, are parsed.

    Raises:
        JobError: a file can't be read as the job's format; the message names it.
    """
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(lambda entry: _footer(entry, spec), listed))


def _footer(entry: Listed, spec: InputSpec) -> Footer:
    match spec.format:
        case "parquet":
            return parquet_footer(entry)
        case "csv":
            return csv_footer(entry, spec)
        case "jsonl":
            return jsonl_footer(entry, spec)
        case "arrow":
            return arrow_footer(entry)
