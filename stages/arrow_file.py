"""Steps 1b and 3 for Arrow IPC files (also named Feather 2): a record batch is a row group."""

from collections.abc import Sequence

import pyarrow as pa

from headrace.schemas.errors import JobError, ShardError
from headrace.schemas.plan import InputFile
from headrace.stages.footer import Footer, RowGroup, rows_only
from headrace.stages.listing import Listed
from headrace.stages.places import AnyPath, is_local, open_bytes
from headrace.stages.store import file_sha256


def arrow_footer(entry: Listed) -> Footer:
    """Read an Arrow file's schema and the sizes of its record batches.

    Raises:
        JobError: it is no Arrow file; a stream, which has no footer, is none.
    """
    try:
        with arrow_source(entry.file) as source, pa.ipc.open_file(source) as reader:
            batches = (reader.get_batch(at) for at in range(reader.num_record_batches))
            groups = tuple(RowGroup(batch.num_rows, batch.nbytes) for batch in batches)
            schema = reader.schema
    except (pa.ArrowException, OSError) as error:
        msg = (
            f"input.path: expected an Arrow IPC file, got {entry.file} ({error}). An Arrow stream "
            "is none: write it with pyarrow.ipc.new_file."
        )
        raise JobError(msg) from error
    return Footer(
        listed=entry,
        file=InputFile(
            path=entry.relative,
            size_bytes=entry.file.stat().st_size,
            footer_sha256=file_sha256(entry.file),
            rows=sum(group.rows for group in groups),
        ),
        schema=schema,
        row_groups=groups,
    )


def read_arrow(file: AnyPath, row_group: int, columns: Sequence[str]) -> pa.Table:
    """Read some columns of one record batch, checked.

    Raises:
        ShardError: its buffers don't make arrays.
    """
    with arrow_source(file) as source:
        names = pa.ipc.open_file(source).schema.names
        present = [at for at, name in enumerate(names) if name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=present)
        try:
            batch = pa.ipc.open_file(source, options=options).get_batch(row_group)
            for column in batch.columns:
                _as_bytes(column).validate(full=True)
        except pa.ArrowException as error:
            msg = f"{file}: record batch {row_group} can't be read ({error}). Restore the file."
            raise ShardError(msg) from error
    return pa.Table.from_batches([batch]) if present else rows_only(batch.num_rows)


def _as_bytes(column: pa.Array) -> pa.Array:
    """View texts as bytes: a text that is no UTF-8 is its own row's fault, found later."""
    bytes_of = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    return column.view(bytes_of[column.type]) if column.type in bytes_of else column


def arrow_source(file: AnyPath) -> pa.NativeFile:
    """Open a file as pyarrow takes it."""
    return pa.OSFile(str(file)) if is_local(file) else pa.PythonFile(open_bytes(file), mode="r")
