"""Step 1d: cut the input into shards, greedily, in path and row-group order."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic import JsonValue

from headrace.schemas.job import ShardSpec
from headrace.schemas.plan import Shard, Slice
from headrace.stages.footer import Footer
from headrace.stages.store import digest


def cut_shards(
    footers: Sequence[Footer], spec: ShardSpec, limit: int | None, fingerprint: str
) -> tuple[Shard, ...]:
    """Cut the files into shards of at most `target_rows` and `target_bytes`.

    A shard may span files. A row group is cut only if it alone is larger than a target.

    Args:
        footers: the files, in the order of their paths.
        spec: the targets.
        limit: take only this many rows, from the start.
        fingerprint: what the shards' ids are derived from, beside their slices.
    """
    bins: list[list[Slice]] = []
    rows = size = 0
    for piece, piece_bytes in _limited(_pieces(footers, spec), limit):
        fits = rows + piece.rows <= spec.target_rows and size + piece_bytes <= spec.target_bytes
        if not bins or not fits:
            bins.append([])
            rows = size = 0
        bins[-1].append(piece)
        rows, size = rows + piece.rows, size + piece_bytes
    # An empty input gets one empty shard: its part still tells readers the schema.
    return tuple(
        _shard(index, tuple(pieces), fingerprint) for index, pieces in enumerate(bins or [[]])
    )


def _pieces(footers: Sequence[Footer], spec: ShardSpec) -> Iterator[tuple[Slice, int]]:
    """Yield whole row groups, and the pieces of those that are larger than a target."""
    for footer in footers:
        for at, group in enumerate(footer.row_groups):
            step = _rows_that_fit(group.rows, group.size_bytes, spec)
            for start in range(0, group.rows, step):
                rows = min(step, group.rows - start)
                size = group.size_bytes * rows // group.rows
                yield Slice(footer.listed.relative, at, start, rows, group.span), size


def _rows_that_fit(rows: int, size_bytes: int, spec: ShardSpec) -> int:
    by_bytes = rows if size_bytes <= spec.target_bytes else rows * spec.target_bytes // size_bytes
    return max(1, min(rows, spec.target_rows, by_bytes))


def _limited(pieces: Iterator[tuple[Slice, int]], limit: int | None) -> Iterator[tuple[Slice, int]]:
    left = limit
    for piece, size in pieces:
        if left is None or piece.rows <= left:
            yield piece, size
        elif left > 0:
            yield replace(piece, rows=left), size * left // piece.rows
        if left is not None:
            left -= piece.rows
            if left <= 0:
                return


def _shard(index: int, slices: tuple[Slice, ...], fingerprint: str) -> Shard:
    rows = [_values(piece) for piece in slices]
    return Shard(index, digest([fingerprint, index, rows])[:8], slices)


def _values(piece: Slice) -> list[JsonValue]:
    return [piece.path, piece.row_group, piece.row_start, piece.rows, *(piece.span or ())]


def slices_digest(shards: Sequence[Shard]) -> str:
    """SHA-256 over every shard's id and slices, in order."""
    return digest(
        [[shard.index, shard.id] + [_values(piece) for piece in shard.slices] for shard in shards]
    )
