"""Step 1c: decide one Arrow schema for the dataset, and check the job's columns against it."""

import io
from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas.columns import added_columns
from headrace.schemas.errors import JobError
from headrace.schemas.job import InputSpec, Job
from headrace.stages.footer import Footer
from headrace.stages.texts import is_text
from headrace.stages.unify import is_bytes, unify_fields
from headrace.stages.wording import suggest


def dataset_schema(footers: Sequence[Footer]) -> pa.Schema:
    """Unify the files' schemas into one that loses nothing of any (stages/unify.py).

    The first file gives the order and the metadata; columns that it lacks follow. A column that a
    file lacks, or has as all null, becomes nullable. Hive folders come last, as text.

    Raises:
        JobError: two files disagree about a column's type, which the message names both, or a
            file has a column twice.
    """
    fields: dict[str, pa.Field] = {}
    for footer in footers:
        _refuse_doubled(footer)
        for field in footer.schema:
            known = fields.get(field.name)
            if known is not None and known.equals(field):
                continue
            merged = field if known is None else unify_fields(known, field)
            if merged is None:
                _raise_disagreement(footers, footer, field)
            fields[field.name] = merged
    for footer in footers:
        for name in fields.keys() - set(footer.schema.names):
            fields[name] = fields[name].with_nullable(True)
    schema = pa.schema(fields.values(), metadata=footers[0].schema.metadata)
    return _with_partitions(schema, footers)


def _refuse_doubled(footer: Footer) -> None:
    doubled = sorted(name for name, count in Counter(footer.schema.names).items() if count > 1)
    if doubled:
        msg = (
            f"input: expected distinct column names, got these more than once: {doubled} in "
            f"{footer.listed.file}. Rename them in the input."
        )
        raise JobError(msg)


def _raise_disagreement(footers: Sequence[Footer], footer: Footer, field: pa.Field) -> NoReturn:
    earlier = footers[: footers.index(footer)]
    have = [other for other in earlier if field.name in other.schema.names]
    # The first that disagrees by itself; else only all of them together do.
    other = next(
        (each for each in have if unify_fields(each.schema.field(field.name), field) is None),
        have[-1],
    )
    msg = (
        f"input: expected one type for column {field.name!r} that loses nothing, got "
        f"{other.schema.field(field.name).type} in {other.listed.file} and {field.type} in "
        f"{footer.listed.file}. Convert one of them."
    )
    raise JobError(msg)


def _with_partitions(schema: pa.Schema, footers: Sequence[Footer]) -> pa.Schema:
    owners = {name: footer for footer in footers for name, _ in footer.listed.partitions}
    for name, footer in owners.items():
        if name in schema.names:
            msg = (
                f"input: expected hive folder {name!r} to add a column, and a file has a "
                f"column of that name ({footer.listed.file}). Rename one of them."
            )
            raise JobError(msg)
    return pa.schema(
        [*schema, *(pa.field(name, pa.string()) for name in owners)], metadata=schema.metadata
    )


def check_columns(job: Job, schema: pa.Schema, *, multi_label: bool = False) -> None:
    """Check that the job's columns exist, are text where they must be, and don't collide.

    Args:
        job: the job.
        schema: the dataset's.
        multi_label: whether the model is a multi-label classifier, which gives other columns.

    Raises:
        JobError: one does not.
    """
    for name in job.input.text_columns:
        _known(name, schema, "input.text")
        _refuse_no_text(name, schema.field(name).type, job.input)
    kept = schema.names if job.output.columns is None else job.output.columns
    if len(set(kept)) < len(kept):
        msg = f"output.columns: expected each column once, got {list(kept)}"
        raise JobError(msg)
    for name in kept:
        _known(name, schema, "output.columns")
        _refuse_unwritable(schema.field(name))
    for name in added_columns(job, multi_label=multi_label).names:
        if name in kept:
            msg = (
                f"output.columns: expected no input column named {name!r}, which the result needs. "
                "Set output.prefix, which goes before the names of our columns, or list the "
                "columns to keep without it."
            )
            raise JobError(msg)


def _refuse_unwritable(field: pa.Field) -> None:
    """Ask Parquet itself whether it holds a type: Arrow files may bring others."""
    try:
        pq.ParquetWriter(io.BytesIO(), pa.schema([field])).close()
    except (pa.ArrowException, OSError) as error:
        msg = (
            f"output.columns: expected types that Parquet holds, got column {field.name!r} of type "
            f"{field.type} ({error}). Leave it out."
        )
        raise JobError(msg) from error


def _known(name: str, schema: pa.Schema, key: str) -> None:
    if name not in schema.names:
        near = suggest(name, schema.names, "the input has")
        msg = f"{key}: expected a column of the input, got {name!r}{near}"
        raise JobError(msg)


def _refuse_no_text(name: str, kind: pa.DataType, spec: InputSpec) -> None:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if is_text(kind) or pa.types.is_null(kind) or (spec.binary_as_text and is_bytes(plain)):
        return
    msg = f"input.text: expected a text column, got {name!r} of type {kind}."
    if is_bytes(plain):
        msg += " If these bytes are UTF-8 text, set input.binary_as_text: true."
    raise JobError(msg)
