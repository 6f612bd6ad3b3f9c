"""Step 9b: list a shard's guilty rows by where they stand in the input, never by their content."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.schemas import layout
from headrace.schemas.plan import Shard
from headrace.stages.store import own_tmp, replace


def list_faults(out: Path, shard: Shard, faults: Mapping[int, str]) -> None:
    """Write `_headrace/errors/<part>.jsonl`: file, row group, row in it and reason, a line a row.

    Args:
        out: the output folder.
        shard: where its rows come from.
        faults: reason by row of the shard; nothing is written where there is none.
    """
    if faults:
        lines = (json.dumps(entry, ensure_ascii=False) for entry in _entries(shard, faults))
        text = "\n".join(lines) + "\n"
        replace(out / layout.errors_path(shard.part), text.encode(), own_tmp(out))


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
