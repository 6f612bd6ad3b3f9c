"""The names of the columns that a job adds to those of its input."""

from dataclasses import dataclass

from headrace.schemas.job import Job


@dataclass(frozen=True)
class AddedColumns:
    """In the output's order: the results, then the reason why a row has none.

    The first result is null in a row if, and only if, the row has no result.
    """

    results: tuple[str, ...]
    error: str

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.results, self.error)


def added_columns(job: Job, *, multi_label: bool) -> AddedColumns:
    """Name what a job adds, `output.prefix` before each name.

    Args:
        job: the job.
        multi_label: whether its model is a classifier that gives a row any number of labels.
    """
    prefix = job.output.prefix
    results = tuple(prefix + name for name in _results(job, multi_label=multi_label))
    return AddedColumns(results, f"{prefix}headrace_error")


def _results(job: Job, *, multi_label: bool) -> tuple[str, ...]:
    if job.model.task == "embed":
        return ("embedding", "embedding_scale") if job.output.dtype == "int8" else ("embedding",)
    if multi_label:
        return ("labels",)
    several = job.model.top_k is not None and job.model.top_k > 1
    return ("label", "score", "top") if several else ("label", "score")
