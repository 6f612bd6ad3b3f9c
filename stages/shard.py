"""The journey of one shard, from its rows in the input to its committed file and report."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.schemas import layout
from headrace.schemas.plan import Shard
from headrace.schemas.report import PartFile, Rows, ShardReport
from headrace.stages.commit import commit
from headrace.stages.compute import Computed, compute
from headrace.stages.encode import encode
from headrace.stages.faults import Texts, list_faults, texts_of
from headrace.stages.grid import batches_of
from headrace.stages.handover import put
from headrace.stages.ledger import Account
from headrace.stages.read import read_slices, stored_bytes
from headrace.stages.results import output_table, reasons_column
from headrace.stages.shard_report import report_after_commit, report_before_write
from headrace.stages.spans import Spans
from headrace.stages.store import as_json, own_tmp, replace, writing
from headrace.stages.store_session import counted_faults
from headrace.stages.workplace import Workplace


@dataclass(frozen=True)
class _Committed:
    report: ShardReport
    file: PartFile
    write_s: float


def process_shard(shard: Shard, attempt: int, place: Workplace) -> ShardReport | None:
    """Take one shard all the way. Returns its report, or None when another attempt was first.

    Raises:
        ShardError: the shard can't be computed, and trying again would not help.
        PreemptedError: the worker is about to end, too soon for this shard.
        OutputError: the output's disk does not take the part.
        OSError: a file could not be read or written.
    """
    account = place.ledger.open(shard.part)
    done = None
    try:
        with counted_faults() as store_faults:
            done = _journey(shard, attempt, place, account)
    finally:
        charged_s = place.ledger.close(account, wasted=done is None)
    if done is None:
        return None
    report = report_after_commit(
        done.report, place, done.file, done.write_s, charged_s, store_faults
    )
    with writing(place.out, refusals_only=True):
        replace(place.out / layout.report_path(shard.part), as_json(report), own_tmp(place.out))
    return report


def _journey(shard: Shard, attempt: int, place: Workplace, account: Account) -> _Committed | None:
    started, spans = datetime.now(UTC), Spans()
    with spans("read_s"):
        table = read_slices(place.source, shard.slices, place.read_columns)
    prepared = place.texts.prepare(table, shard.slices, spans)
    batches = list(batches_of(place.header.grid, prepared.rows, prepared.ragged.lengths))
    with spans("h2d_s"):
        ragged = put(prepared.ragged, place.forward.device)
    computed, spans.seconds["wait_s"] = place.device.run_for(
        place.ledger, account, lambda: compute(ragged, batches, table.num_rows, place, shard.part)
    )
    faults = dict(sorted((prepared.faults | computed.outcome.faults).items()))
    report = report_before_write(
        shard,
        attempt,
        place,
        computed,
        prepared,
        started,
        rows=_count(table.num_rows, prepared.nulls.size, len(faults)),
        bytes_in=stored_bytes(place.source, shard.slices, place.input_columns),
        seconds={**spans.seconds, **computed.seconds},
        charged_s=place.ledger.charged(account),
    )
    output = _output(table, computed, prepared.nulls, faults, place)
    with spans("write_s"), writing(place.out, refusals_only=True):
        errors_sha256 = list_faults(place.out, shard, faults, _kept(shard, table, faults, place))
        file = _write(shard, place, output, errors_sha256, report)
    return None if file is None else _Committed(report, file, spans.seconds["write_s"])


def _count(rows: int, nulls: int, errors: int) -> Rows:
    return Rows(in_=rows, good=rows - nulls - errors, null=nulls, errors=errors)


def _output(
    table: pa.Table,
    computed: Computed,
    nulls: npt.NDArray[np.int64],
    faults: Mapping[int, str],
    place: Workplace,
) -> pa.Table:
    drop = place.header.job.errors.mode == "drop"
    reasons = reasons_column(table.num_rows, nulls, faults)
    columns = (*computed.results.columns(), reasons)
    return output_table(
        table.select(place.passed_columns),
        dict(zip(place.header.added_columns.names, columns, strict=True)),
        list(faults) if drop else [],
    )


def _kept(
    shard: Shard, table: pa.Table, faults: Mapping[int, str], place: Workplace
) -> Texts | None:
    """Take the guilty rows' texts where the job asks for them."""
    job = place.header.job
    if not job.errors.keep_input or not faults:
        return None
    columns = job.input.text_columns
    if not set(columns) <= set(table.column_names):  # they were read on the GPU alone
        table = read_slices(place.source, shard.slices, columns)
    return texts_of(table, columns, faults)


def _write(
    shard: Shard,
    place: Workplace,
    table: pa.Table,
    errors_sha256: str | None,
    report: ShardReport,
) -> PartFile | None:
    tmp = own_tmp(place.out)
    tmp_file = encode(table, tmp, place.header.job.output.compression, report)
    return commit(tmp_file, place.out, shard.part, report, errors_sha256, tmp)
