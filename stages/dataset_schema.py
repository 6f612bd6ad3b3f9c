"""Step 1c: decide one Arrow schema for the dataset, and check the job's columns against it."""

from collections.abc import Sequence

import pyarrow as pa

from headrace.schemas import layout
from headrace.schemas.errors import JobError
from headrace.schemas.job import Job
from headrace.stages.footers import Footer
from headrace.stages.wording import suggest

RESULT_COLUMNS = {"embed": ("embedding",), "classify": ("label", "score", "top")}


def dataset_schema(footers: Sequence[Footer]) -> pa.Schema:
    """Unify the files' schemas: a column that a file lacks, or has as all null, becomes nullable.

    The first file gives the order and the metadata. Hive folders come last, as text.

    Raises:
        JobError: two files disagree about a column's type; the message names both.
    """
    schema = footers[0].schema
    for footer in footers[1:]:
        if footer.schema.equals(schema, check_metadata=False):
            continue
        try:
            schema = pa.unify_schemas([schema, footer.schema])
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            _raise_disagreement(footers, footer, error)
    for name in schema.names:
        if any(name not in footer.schema.names for footer in footers):
            at = schema.get_field_index(name)
            schema = schema.set(at, schema.field(at).with_nullable(True))
    return _with_partitions(schema, footers)


def _raise_disagreement(
    footers: Sequence[Footer], footer: Footer, error: pa.ArrowException
) -> None:
    for earlier in footers:
        for field in footer.schema:
            at = earlier.schema.get_field_index(field.name)
            if at >= 0 and not _agree(earlier.schema.field(at).type, field.type):
                msg = (
                    f"input: expected one type for column {field.name!r}, got "
                    f"{earlier.schema.field(at).type} in {earlier.listed.file} and {field.type} in "
                    f"{footer.listed.file}. Convert one of them."
                )
                raise JobError(msg) from error
    msg = f"input: the schema of {footer.listed.file} does not fit the others: {error}"
    raise JobError(msg) from error


def _agree(left: pa.DataType, right: pa.DataType) -> bool:
    return bool(left == right) or pa.types.is_null(left) or pa.types.is_null(right)


def _with_partitions(schema: pa.Schema, footers: Sequence[Footer]) -> pa.Schema:
    for footer in footers:
        for name, _ in footer.listed.partitions:
            at = schema.get_field_index(name)
            if at < 0:
                schema = schema.append(pa.field(name, pa.string()))
            elif any(name in other.schema.names for other in footers):
                msg = (
                    f"input: expected hive folder {name!r} to add a column, and a file has a "
                    f"column of that name ({footer.listed.file}). Rename one of them."
                )
                raise JobError(msg)
    return schema


def check_columns(job: Job, schema: pa.Schema) -> None:
    """Check that the job's columns exist, are text where they must be, and don't collide.

    Raises:
        JobError: one does not.
    """
    doubled = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if doubled:
        msg = f"input: expected distinct column names, got these more than once: {doubled}"
        raise JobError(msg)
    for name in job.input.text_columns:
        _known(name, schema, "input.text")
        kind = schema.field(name).type
        if not _is_text(kind):
            msg = f"input.text: expected a text column, got {name!r} of type {kind}"
            raise JobError(msg)
    kept = schema.names if job.output.columns is None else job.output.columns
    if len(set(kept)) < len(kept):
        msg = f"output.columns: expected each column once, got {list(kept)}"
        raise JobError(msg)
    for name in job.output.columns or ():
        _known(name, schema, "output.columns")
    for name in (*RESULT_COLUMNS[job.model.task], layout.ERROR_COLUMN):
        if name in kept:
            msg = (
                f"output.columns: expected no input column named {name!r}, which the result needs. "
                "List the columns to keep without it, or rename it in the input."
            )
            raise JobError(msg)


def _known(name: str, schema: pa.Schema, key: str) -> None:
    if name not in schema.names:
        near = suggest(name, schema.names, "the input has")
        msg = f"{key}: expected a column of the input, got {name!r}{near}"
        raise JobError(msg)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
