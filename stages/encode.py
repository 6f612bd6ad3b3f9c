"""Step 10a: encode a shard's table to a temporary Parquet file, its report so far in the footer."""

import io
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas import layout
from headrace.schemas.report import ShardReport

ROW_GROUP_ROWS = 65_536


def encode(table: pa.Table, tmp: Path, compression: str, report: ShardReport) -> Path:
    """Write a table with page checksums. Returns the temporary file, complete but not yet synced.

    Raises:
        OSError: the disk does not take it; nothing is left behind.
    """
    file = tmp / f"{uuid.uuid4().hex}.parquet"
    try:
        with pq.ParquetWriter(
            file,
            table.schema,
            compression=compression,
            use_dictionary=_dictionary_columns(table.schema),
            use_compliant_nested_type=False,  # keep the names inside lists as the input has them
            write_page_checksum=True,
        ) as writer:
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            footer = report.model_dump_json(by_alias=True)
            writer.add_key_value_metadata({layout.FOOTER_KEY: footer})
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return file


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Name every leaf but the vectors', as Parquet spells them: asked of an empty file.

    Vectors hardly repeat: a dictionary would cost time and memory for nothing.
    """
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink, use_compliant_nested_type=False)
    leaves = pq.read_metadata(sink).schema
    paths = [leaves.column(at).path for at in range(len(leaves))]
    vectors = {
        f"{field.name}.list.{field.type.value_field.name}"
        for field in schema
        if _is_vector(field.type)
    }
    return [path for path in paths if path not in vectors]


def _is_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type))
