"""Step 9b: list a shard's guilty rows by where they stand in the input, never by their content."""

import hashlib
import json
from collections.abc import Iterator, Mapping

from headrace.schemas import layout
from headrace.schemas.plan import Shard
from headrace.stages.places import AnyPath
from headrace.stages.store import create, own_tmp

NULL_INPUT = "null input"  # the reason that is none: it is counted apart
# So many guilty rows without one good one: the fault is not in the rows.
HOPELESS_ROWS = 64


def list_faults(out: AnyPath, shard: Shard, faults: Mapping[int, str]) -> str | None:
    """Write `_headrace/errors/<part>.<sha256>.jsonl`, a line for each guilty row.

    A line says file, row group, row in it, and reason. The name holds the list's digest and the
    commit record names it, so that an attempt that loses can't replace the winner's list.

    Args:
        out: the output folder.
        shard: where its rows come from.
        faults: reason by row of the shard.

    Returns:
        The list's SHA-256, or None where there is nothing to list.
    """
    if not faults:
        return None
    lines = (json.dumps(entry, ensure_ascii=False) for entry in _entries(shard, faults))
    text = ("\n".join(lines) + "\n").encode()
    sha256 = hashlib.sha256(text).hexdigest()
    create(out / layout.errors_path(shard.part, sha256), text, own_tmp(out))
    return sha256


def _entries(shard: Shard, faults: Mapping[int, str]) -> Iterator[dict[str, str | int]]:
    first = 0
    for piece in shard.slices:
        for row in sorted(row for row in faults if first <= row < first + piece.rows):
            yield {
                "file": piece.path,
                "row_group": piece.row_group,
                "row": piece.row_start + row - first,
                "reason": faults[row],
            }
        first += piece.rows
