"""Step 9b: list a shard's guilty rows by where they stand in the input, never by their content."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.schemas import layout
from headrace.schemas.plan import Shard, Slice
from headrace.stages.places import AnyPath
from headrace.stages.store import create, own_tmp

NULL_INPUT = "null input"  # the reason that is none: it is counted apart
# So many guilty rows without one good one: the fault is not in the rows.
HOPELESS_ROWS = 64


Texts = Mapping[int, Mapping[str, str | None]]  # row -> column -> what stands there


def list_faults(
    out: AnyPath, shard: Shard, faults: Mapping[int, str], texts: Texts | None = None
) -> str | None:
    """Write `_headrace/errors/<part>.<sha256>.jsonl`, a line for each guilty row.

    A line says file, row group, row in it, and reason, and the row's texts if they are given. The
    name holds the list's digest and the commit record names it, so that an attempt that loses can't
    replace the winner's list.

    Args:
        out: the output folder.
        shard: where its rows come from.
        faults: reason by row of the shard.
        texts: of these rows, where the job asks for them (`errors.keep_input`).

    Returns:
        The list's SHA-256, or None where there is nothing to list.
    """
    if not faults:
        return None
    lines = (
        json.dumps(entry, ensure_ascii=False) for entry in _entries(shard, faults, texts or {})
    )
    text = ("\n".join(lines) + "\n").encode()
    sha256 = hashlib.sha256(text).hexdigest()
    create(out / layout.errors_path(shard.part, sha256), text, own_tmp(out))
    return sha256


def _entries(shard: Shard, faults: Mapping[int, str], texts: Texts) -> Iterator[dict[str, Any]]:
    first = 0
    for piece in shard.slices:
        for row in sorted(row for row in faults if first <= row < first + piece.rows):
            entry: dict[str, Any] = {
                "file": piece.path,
                "row_group": piece.row_group,
                "row": piece.row_start + row - first,
                "reason": faults[row],
            }
            yield entry | ({"input": dict(texts[row])} if row in texts else {})
        first += piece.rows


def listed_rows(shard: Shard, text: bytes) -> list[int]:
    """Read such a list back: the rows of the shard that it names."""
    starts: dict[tuple[str, int], list[tuple[Slice, int]]] = {}
    first = 0
    for piece in shard.slices:
        starts.setdefault((piece.path, piece.row_group), []).append((piece, first))
        first += piece.rows
    rows = []
    for entry in map(json.loads, text.splitlines()):
        for piece, start in starts[entry["file"], entry["row_group"]]:
            if piece.row_start <= entry["row"] < piece.row_start + piece.rows:
                rows.append(start + entry["row"] - piece.row_start)
    return rows


def texts_of(table: pa.Table, columns: Sequence[str], rows: Iterable[int]) -> Texts:
    """Take some rows' texts out of a shard; bytes that are no UTF-8 get their numbers."""
    return {row: {name: _text(table[name].slice(row, 1)) for name in columns} for row in rows}


def _text(one: pa.ChunkedArray) -> str | None:
    """Read the one value of a column of text, be it a dictionary's."""
    kind = one.type
    if pa.types.is_dictionary(kind):
        one = one.cast(kind.value_type)
    scalar = one[0]
    if not scalar.is_valid:
        return None
    storage = getattr(scalar, "value", scalar) if isinstance(scalar, pa.ExtensionScalar) else scalar
    return bytes(storage.as_buffer()).decode("utf-8", "backslashreplace")
