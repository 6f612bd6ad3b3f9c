"""Step 1: look at the job, its model and its input, and load nothing and write nothing."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import JsonValue

from headrace.schemas.errors import JobError
from headrace.schemas.job import Job
from headrace.schemas.plan import InputFile, Shard
from headrace.stages.dataset_schema import check_columns, dataset_schema
from headrace.stages.destination import refuse_unwritable
from headrace.stages.fingerprint import input_fingerprint, job_fields, job_fingerprint
from headrace.stages.footers import Footer, read_footers
from headrace.stages.listing import list_input
from headrace.stages.model_folder import ModelFolder, model_digest, open_model_folder
from headrace.stages.shards import cut_shards
from headrace.stages.store import local_path


@dataclass(frozen=True)
class Survey:
    """What is known before any worker exists."""

    job: Job
    base: Path  # slices name their files below it
    footers: tuple[Footer, ...]
    schema: pa.Schema
    model: ModelFolder
    job_fields: dict[str, JsonValue]
    job_fingerprint: str
    input_fingerprint: str

    @property
    def files(self) -> tuple[InputFile, ...]:
        """The input's files, in order."""
        return tuple(footer.file for footer in self.footers)

    def cut(self) -> tuple[Shard, ...]:
        """Cut the input as this job says."""
        return self.cut_like(self.job)

    def cut_like(self, job: Job) -> tuple[Shard, ...]:
        """Cut the input as the job of an existing plan said."""
        fingerprint = self.job_fingerprint + self.input_fingerprint
        return cut_shards(self.footers, job.shards, job.input.limit, fingerprint)


def survey(job: Job) -> Survey:
    """List the input, read its footers, check the columns and read the model's configuration.

    Raises:
        JobError: the job can't run on this input.
    """
    model = open_model_folder(job.model)
    refuse_unwritable(local_path(job.output.path, "output.path"))
    base, listed = list_input(job.input.path, job.output.path)
    footers = read_footers(listed)
    schema = dataset_schema(footers)
    check_columns(job, schema)
    _check_task(job, model)
    fields = job_fields(job, model_digest(model.path))
    return Survey(
        job=job,
        base=base,
        footers=tuple(footers),
        schema=schema,
        model=model,
        job_fields=fields,
        job_fingerprint=job_fingerprint(fields),
        input_fingerprint=input_fingerprint([footer.file for footer in footers]),
    )


def _check_task(job: Job, model: ModelFolder) -> None:
    if job.model.task != "classify":
        return
    kind = model.config.get("problem_type")
    if kind not in (None, "single_label_classification"):
        msg = (
            f"model.task: expected a single-label classifier, got problem_type {kind!r} in "
            f"{model.path}. This version classifies single-label models only."
        )
        raise JobError(msg)
    if model.labels and job.model.top_k > len(model.labels):
        msg = (
            f"model.top_k: expected at most the model's {len(model.labels)} classes, "
            f"got {job.model.top_k}"
        )
        raise JobError(msg)
