"""Step 1h: write the plan, exclusively and once; read it back.

The header is the plan's commit: it is created first, and it names the digest of the slices. They
follow from the header and the input, so whoever finds a header without slices may restore them.
"""

import base64
import importlib.metadata
import io
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError, OtherRunError
from headrace.schemas.plan import Plan, PlanHeader, Resolved, Shard, Slice
from headrace.stages.fingerprint import differences
from headrace.stages.places import AnyPath
from headrace.stages.shards import slices_digest
from headrace.stages.store import as_json, create, own_tmp, read_json, replace
from headrace.stages.survey import Survey

PACKAGES = ("headrace", "torch", "transformers", "tokenizers", "pyarrow", "distributed")

SLICES_SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("shard_id", pa.string()),
        ("path", pa.string()),  # null: the one shard of an empty input
        ("row_group", pa.int32()),
        ("row_start", pa.int64()),
        ("rows", pa.int64()),
        ("offset_bytes", pa.int64()),  # of a text file's block; null for the other formats
        ("size_bytes", pa.int64()),
    ]
)


def draw_plan(survey: Survey, shards: tuple[Shard, ...], resolved: Resolved) -> Plan:
    """Put together what was surveyed and what a worker resolved."""
    header = PlanHeader(
        created=datetime.now(UTC).isoformat(),
        job=survey.job,
        job_fields=survey.job_fields,
        job_fingerprint=survey.job_fingerprint,
        input_fingerprint=survey.input_fingerprint,
        files=survey.files,
        arrow_schema=base64.b64encode(survey.schema.serialize()).decode(),
        rows=sum(shard.rows for shard in shards),
        shards=len(shards),
        slices_sha256=slices_digest(shards),
        grid=resolved.grid,
        road=resolved.road,
        result=resolved.facts,
        versions=versions(),
    )
    return Plan(header, shards)


def versions() -> dict[str, str]:
    """The versions that a result depends on, of what is installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):  # run from a checkout, say
            found[name] = importlib.metadata.version(name)
    return found


def write_plan(out: AnyPath, plan: Plan, survey: Survey) -> Plan:
    """Write the plan unless there is one by now. Returns the plan that holds.

    Raises:
        OtherRunError: another run wrote a plan for another job or input first.
    """
    tmp = own_tmp(out)
    if create(out / layout.PLAN, as_json(plan.header), tmp):
        create(out / layout.SLICES, _slices_bytes(plan.shards), tmp)
        return plan
    return restore_plan(out, survey)


def restore_plan(out: AnyPath, survey: Survey) -> Plan:
    """Read the plan of an output folder for this job; restore its slices where they are damaged.

    Raises:
        OtherRunError: the folder belongs to another job or input; nothing is touched.
        DamagedError: the plan can't be read, and can't be restored.
    """
    header = read_json(out / layout.PLAN, PlanHeader)
    _refuse_other(out, header, survey)
    try:
        return load_plan(out)
    except DamagedError:
        return _restore_slices(out, header, survey)


def _restore_slices(out: AnyPath, header: PlanHeader, survey: Survey) -> Plan:
    shards = survey.cut_like(header.job)
    if slices_digest(shards) != header.slices_sha256:
        msg = (
            f"{out / layout.SLICES}: expected the plan's slices, and the file is damaged and can't "
            "be restored by this version of headrace. Start over with --fresh."
        )
        raise DamagedError(msg)
    replace(out / layout.SLICES, _slices_bytes(shards), own_tmp(out))
    return Plan(header, shards)


def load_plan(out: AnyPath) -> Plan:
    """Read the plan from the output folder alone.

    Raises:
        DamagedError: there is none, or it is damaged.
    """
    if not (out / layout.PLAN).is_file():
        msg = f"{out}: expected the output folder of a headrace run, got no {layout.PLAN} in it"
        raise DamagedError(msg)
    header = read_json(out / layout.PLAN, PlanHeader)
    file = out / layout.SLICES
    try:
        table = pq.read_table(pa.BufferReader(file.read_bytes()), schema=SLICES_SCHEMA)
    except (OSError, pa.ArrowException) as error:
        msg = f"{file}: expected the plan's slices, got {error}. Run the job again to restore them."
        raise DamagedError(msg) from error
    shards = _shards_of(table)
    if slices_digest(shards) != header.slices_sha256 or len(shards) != header.shards:
        msg = f"{file}: expected the slices that {layout.PLAN} names, got others"
        raise DamagedError(msg)
    return Plan(header, shards)


def _refuse_other(out: AnyPath, header: PlanHeader, survey: Survey) -> None:
    same_job = header.job_fingerprint == survey.job_fingerprint
    if same_job and header.input_fingerprint == survey.input_fingerprint:
        return
    what = "\n  ".join(differences(header, survey.job_fields, survey.files))
    msg = (
        f"{out} belongs to another run:\n  {what}\n"
        "Choose another output.path, or move this output aside with --fresh. Nothing was touched."
    )
    raise OtherRunError(msg)


def _slices_bytes(shards: Sequence[Shard]) -> bytes:
    rows = []
    for shard in shards:
        pieces = shard.slices or (Slice("", -1, 0, 0),)
        rows += [
            (
                shard.index,
                shard.id,
                piece.path or None,
                piece.row_group,
                piece.row_start,
                piece.rows,
                *(piece.span or (None, None)),
            )
            for piece in pieces
        ]
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), SLICES_SCHEMA, strict=True)
    ]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=SLICES_SCHEMA), sink, compression="zstd")
    return sink.getvalue()


def _shards_of(table: pa.Table) -> tuple[Shard, ...]:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return tuple(
        Shard(
            index,
            shard_id,
            tuple(_slice(*piece) for _, _, *piece in pieces if piece[0] is not None),
        )
        for (index, shard_id), pieces in groupby(rows, key=lambda row: row[:2])
    )


def _slice(
    path: str, row_group: int, row_start: int, rows: int, offset: int | None, size: int | None
) -> Slice:
    span = None if offset is None or size is None else (offset, size)
    return Slice(path, row_group, row_start, rows, span)
