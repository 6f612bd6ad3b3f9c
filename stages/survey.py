"""Step 1: look at the job, its model and its input, and load nothing and write nothing."""

from dataclasses import dataclass

import pyarrow as pa
from pydantic import JsonValue

from headrace.schemas.errors import JobError
from headrace.schemas.job import Job
from headrace.schemas.plan import InputFile, Shard
from headrace.stages.dataset_schema import check_columns, dataset_schema
from headrace.stages.destination import output_place, refuse_unwritable
from headrace.stages.file_checks import refuse_unreadable
from headrace.stages.fingerprint import input_fingerprint, job_fields, job_fingerprint
from headrace.stages.footer import Footer
from headrace.stages.footers import read_footers
from headrace.stages.listing import list_input
from headrace.stages.model_folder import ModelFolder, model_digest, open_model_folder
from headrace.stages.places import AnyPath
from headrace.stages.preprocess import check_steps
from headrace.stages.read import Source
from headrace.stages.shards import cut_shards
from headrace.stages.task import check_task


@dataclass(frozen=True)
class Survey:
    """What is known before any worker exists."""

    job: Job
    base: AnyPath  # slices name their files below it
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

    @property
    def source(self) -> Source:
        """What slices are read from."""
        return Source(self.base, self.job.input, self.schema)

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
    out = output_place(job)
    refuse_unwritable(out)
    base, listed = list_input(job.input, out)
    footers = read_footers(listed, job.input)
    schema = dataset_schema(footers)
    check_columns(job, schema, multi_label=model.multi_label)
    check_steps(job.input.text_columns, job.preprocess)
    kept = schema.names if job.output.columns is None else job.output.columns
    refuse_unreadable(footers, (*job.input.text_columns, *kept))
    check_task(job, model)
    digest = model_digest(model.path)
    if job.model.sha256 not in (None, digest):
        msg = (
            f"model.sha256: expected {job.model.sha256}, got {digest} for the files in "
            f"{model.path}. Restore the model, or see what changed in it."
        )
        raise JobError(msg)
    fields = job_fields(job, digest)
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
