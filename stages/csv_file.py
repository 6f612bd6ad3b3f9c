"""Steps 1b and 3 for CSV: every column is text unless the job gives it a type.

RFC 4180 with a header line, or names from the job. An empty field is null, `""` is an empty text.
pyarrow parses; this module finds where records end, so that a block can be read by itself.
"""

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyarrow import csv

from headrace.schemas.errors import JobError
from headrace.schemas.job import CsvSpec, InputSpec
from headrace.schemas.plan import Span
from headrace.stages.footer import Footer, RowGroup
from headrace.stages.listing import Listed
from headrace.stages.places import AnyPath, open_bytes
from headrace.stages.text_blocks import BYTE_ORDER_MARK, Block, TextFile, read_span, refuse_no_text
from headrace.stages.type_names import parse_type

HEADER_BYTES = 1024 * 1024


def csv_footer(entry: Listed, spec: InputSpec) -> Footer:
    """Parse a whole CSV file once: its columns, its rows, and where its blocks lie.

    Raises:
        JobError: it can't be parsed, or a value does not fit the type that the job gives.
    """
    file, ends = TextFile(entry.file), _record_ends(spec.csv)
    types = _types(entry.file, spec)
    groups: list[RowGroup] = []
    for at, block in enumerate(file.blocks(lambda data: _last_end(data, ends))):
        _refuse_open_quote(block, ends, entry.file)
        offset, size = block.span
        has_header = at == 0 and spec.csv.column_names is None
        skip = _first_end(block.data, ends) if has_header else 0
        rows = _parse(block.data[skip:], spec.csv, types, list(types), entry.file).num_rows
        if rows:
            groups.append(RowGroup(rows, size - skip, (offset + skip, size - skip)))
    return file.footer(entry, groups, pa.schema(types.items()))


def read_csv(file: AnyPath, span: Span, spec: InputSpec, columns: Sequence[str]) -> pa.Table:
    """Read one block: at least the columns that the file has of these.

    Raises:
        JobError: it can't be parsed; the file has changed since it was planned.
    """
    types = _types(file, spec)
    # Without any of the columns the rows must still be counted.
    present = [name for name in columns if name in types] or list(types)[:1]
    return _parse(read_span(file, span), spec.csv, types, present, file)


def _types(file: AnyPath, spec: InputSpec) -> dict[str, pa.DataType]:
    """Name the file's columns and their types; all that the job does not type are text."""
    names = spec.csv.column_names
    if names is None:
        names = _header(file, spec.csv)
    if len(set(names)) < len(names):
        msg = f"input: expected distinct column names in {file}, got {list(names)}"
        raise JobError(msg)
    return {name: parse_type(spec.types.get(name, "string"), name) for name in names}


def _header(file: AnyPath, spec: CsvSpec) -> tuple[str, ...]:
    with open_bytes(file) as source:
        head = source.read(HEADER_BYTES).removeprefix(BYTE_ORDER_MARK)
    refuse_no_text(head, file)
    line = head[: _first_end(head, _record_ends(spec))]
    if not line.strip():
        msg = (
            f"input.path: expected a header line in {file}, got none. "
            "Name the columns by input.csv.column_names where there is no header."
        )
        raise JobError(msg)
    whole = pa.BufferReader(line.rstrip(b"\r\n") + b"\n")
    try:
        # Without threads: a process that ends at once, because of what the header holds, must not
        # leave one of Arrow's behind.
        alone = csv.ReadOptions(use_threads=False)
        return tuple(csv.read_csv(whole, alone, _parsing(spec)).column_names)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        msg = f"input.path: expected a header line of UTF-8 names in {file}, got: {error}"
        raise JobError(msg) from error


def _record_ends(spec: CsvSpec) -> re.Pattern[bytes]:
    """Match quoted fields, with the closing quote as group 1, and line ends outside as group 2.

    A quote opens a field only at its start, as pyarrow has it; inside a plain field it is text.
    """
    if spec.quote is None:
        return re.compile(rb"()(\n)")
    quote, delimiter = re.escape(spec.quote.encode()), re.escape(spec.delimiter.encode())
    field = rb"(?<![^%b\r\n])%b(?:[^%b]|%b%b)*+(%b|\Z)" % (delimiter, *[quote] * 5)
    return re.compile(field + rb"|(\n)")


def _first_end(data: bytes, ends: re.Pattern[bytes]) -> int:
    """How many bytes the first record has."""
    found = (match.end() for match in ends.finditer(data) if match.group(2))
    return next(found, len(data))


def _last_end(data: bytes, ends: re.Pattern[bytes]) -> int:
    """How many bytes of these are whole records."""
    last = 0
    for match in ends.finditer(data):
        if match.group(2):
            last = match.end()
    return last


def _refuse_open_quote(block: Block, ends: re.Pattern[bytes], file: AnyPath) -> None:
    if block.ended:
        return
    for match in ends.finditer(block.data):
        if match.group(1) == b"" and not match.group(2):
            msg = (
                f"input.path: expected a closing quote in {file} for the one at byte "
                f"{block.span[0] + match.start():,}, got the file's end. "
                "Mend the file, or set input.csv.quote to null."
            )
            raise JobError(msg)


def _parsing(spec: CsvSpec) -> csv.ParseOptions:
    return csv.ParseOptions(
        delimiter=spec.delimiter,
        quote_char=spec.quote if spec.quote is not None else False,
        newlines_in_values=True,
    )


def _parse(
    data: bytes, spec: CsvSpec, types: Mapping[str, pa.DataType], columns: list[str], file: AnyPath
) -> pa.Table:
    if not data.strip(b"\r\n"):
        return pa.schema([(name, types[name]) for name in columns]).empty_table()
    try:
        return csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(column_names=list(types), use_threads=False, block_size=len(data) + 1),
            _parsing(spec),
            csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                check_utf8=False,  # a bad byte costs its row only, in preprocessing
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        msg = (
            f"input.path: expected CSV with {len(types)} columns in {file}, got: "
            f"{_without_values(str(error))}. Mend the file, or see input.csv and input.types."
        )
        raise JobError(msg) from error


def _without_values(text: str) -> str:
    """Cut what pyarrow quotes of the row: messages are kept, and rows may be private."""
    text = re.sub(r"(Expected \d+ columns, got \d+).*", r"\1", text, flags=re.DOTALL)
    return re.sub(r"(: invalid value|: Value) .*", "", text, flags=re.DOTALL)
