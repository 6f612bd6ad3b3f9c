"""`headrace verify --deep`: take a sample of the parts again from the input, and compare.

All rows of a sampled part are held against the input in the columns that it keeps, bit for bit; the
results of some of its rows are computed anew.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas import layout
from headrace.schemas.errors import JobError, ShardError
from headrace.schemas.plan import Plan, PlanHeader, Shard
from headrace.schemas.verify import Rechecked
from headrace.stages.alike import Likeness, differing_column, likeness
from headrace.stages.commit import CommitRecord
from headrace.stages.cores import own_cores
from headrace.stages.device_thread import DeviceThread
from headrace.stages.faults import NULL_INPUT, listed_rows
from headrace.stages.forward import Runner
from headrace.stages.grid import batches_of
from headrace.stages.handover import put
from headrace.stages.isolate import run_batches
from headrace.stages.listing import list_input
from headrace.stages.load_model import load_module
from headrace.stages.model_folder import model_digest, open_model_folder
from headrace.stages.open_forward import open_forward
from headrace.stages.places import AnyPath, Options, on_disk
from headrace.stages.prepare import HostTexts, host_texts
from headrace.stages.processor import choose_device, multiplies_bf16
from headrace.stages.read import Source, read_slices
from headrace.stages.results import Results, output_table
from headrace.stages.spans import Spans
from headrace.stages.store import file_sha256, read_json

SAMPLED_PARTS = 16
SAMPLED_ROWS = 256  # of all of them together
NAMED_ROWS = 3  # in a message


@dataclass(frozen=True)
class _Bench:
    """What it takes to compute rows again, on this machine."""

    out: AnyPath
    source: Source
    header: PlanHeader
    texts: HostTexts
    forward: Runner
    device: DeviceThread

    def results(self, table: pa.Table) -> tuple[Results, npt.NDArray[np.bool_]]:
        """Compute rows. Returns their results, and which of them are null (N,)."""
        prepared = self.texts.prepare(table, (), Spans())
        batches = list(batches_of(self.header.grid, prepared.rows, prepared.ragged.lengths))
        results = Results(table.num_rows, self.header.result)

        def work() -> None:
            ragged = put(prepared.ragged, self.forward.device)
            self.forward.spans = Spans()
            run_batches(
                batches,
                lambda batch: self.forward.launch(ragged, batch),
                results.place,
                self.forward.depth,
                self.forward.token_limit,
            )

        self.device.run(work)
        nulls = np.zeros(table.num_rows, np.bool_)
        nulls[prepared.nulls] = True
        return results, nulls


def recheck(out: AnyPath, plan: Plan, parts: Sequence[Shard], options: Options) -> Rechecked:
    """Compare a sample of whole parts with what the input and the model give today.

    Args:
        out: the output folder.
        plan: its plan.
        parts: the shards whose parts are whole; a sample of them is taken.
        options: `storage_options` of the input, where that is a URL: a plan keeps none.

    Raises:
        JobError: the input or the model can't be had, or is another than that of the plan.
    """
    bench = _open(out, plan.header, options)
    chosen = _spread(parts)
    rows = -(-SAMPLED_ROWS // max(1, len(chosen)))
    return sum((_recheck_part(bench, shard, rows) for shard in chosen), Rechecked())


def _spread(parts: Sequence[Shard]) -> list[Shard]:
    """Take up to 16 parts, the first and the last among them."""
    if len(parts) <= SAMPLED_PARTS:
        return list(parts)
    places = np.linspace(0, len(parts) - 1, SAMPLED_PARTS).round().astype(int)
    return [parts[at] for at in places]


def _open(out: AnyPath, header: PlanHeader, options: Options) -> _Bench:
    job = header.job
    model = open_model_folder(job.model)
    planned, found = header.job_fields["model.digest"], model_digest(model.path)
    if planned != found:
        msg = (
            f"--deep: expected the model that the output was made with ({planned}), got {found} at "
            f"{model.path}. Restore it, or verify without --deep."
        )
        raise JobError(msg)
    spec = job.input
    if "://" in spec.path:
        spec = spec.model_copy(update={"storage_options": options})
    base, _ = list_input(spec, out)
    header = _road_here(header)
    device = DeviceThread(own_cores(1))
    forward = device.run(
        lambda: open_forward(
            header,
            model,
            lambda precision: load_module(job.model, model, header.road.device, precision),
        )
    )
    source = Source(base, spec, header.dataset_schema)
    return _Bench(out, source, header, host_texts(job, model), forward, device)


def _road_here(header: PlanHeader) -> PlanHeader:
    """Take the plan's road where this machine can, and fp32 on the CPU where it can't."""
    road = header.road
    here = choose_device("auto")
    if road.device == here and (road.precision != "bf16" or multiplies_bf16(here)):
        return header
    update = {"device": "cpu", "precision": "fp32", "execution": "eager"}
    return header.model_copy(update={"road": road.model_copy(update=update)})


def _recheck_part(bench: _Bench, shard: Shard, rows: int) -> Rechecked:
    header = bench.header
    passed = _passed(header)
    try:
        wanted = list(dict.fromkeys([*passed, *header.job.input.text_columns]))
        table = read_slices(bench.source, shard.slices, wanted)
    except (ShardError, OSError) as error:
        fault = f"{shard.part}: its input can't be read again: {error}"
        return Rechecked(faults=(fault,), parts=1)
    with on_disk(bench.out / shard.part) as file:
        part = pq.read_table(file, partitioning=None)
        dropped = _dropped(bench, shard, file_sha256(file))
    table = output_table(table, {}, dropped)
    column = differing_column(part.select(passed), table.select(passed))
    if column is not None:
        fault = (
            f"{shard.part}: its column {column!r} is not that of the input; move the part away and "
            "run the job again"
        )
        return Rechecked(faults=(fault,), parts=1, rows_compared=part.num_rows)
    return _recompute(bench, shard, part, table, rows)


def _passed(header: PlanHeader) -> list[str]:
    wanted = header.job.output.columns
    return list(header.dataset_schema.names if wanted is None else wanted)


def _dropped(bench: _Bench, shard: Shard, sha256: str) -> list[int]:
    """List the rows of a shard that its part leaves out."""
    if bench.header.job.errors.mode != "drop":
        return []
    record = read_json(bench.out / layout.commit_path(shard.part, sha256), CommitRecord)
    if record.errors_sha256 is None:
        return []
    listed = bench.out / layout.errors_path(shard.part, record.errors_sha256)
    return listed_rows(shard, listed.read_bytes())


def _recompute(
    bench: _Bench, shard: Shard, part: pa.Table, table: pa.Table, rows: int
) -> Rechecked:
    """Compute some rows anew that have a result, or none because their text is null."""
    reasons = part.column(bench.header.added_columns.error).to_pylist()
    open_rows = [row for row, reason in enumerate(reasons) if reason in (None, NULL_INPUT)]
    draw = random.Random(shard.id)  # noqa: S311 - the same rows each time, so that one may look
    chosen = sorted(draw.sample(open_rows, min(rows, len(open_rows))))
    if not chosen:
        return Rechecked(parts=1, rows_compared=part.num_rows)
    results, nulls = bench.results(_rows_of(table, chosen))
    there = _rows_of(part.select(bench.header.added_columns.results), chosen)
    alike = likeness(results, there)
    was_null = np.array([reasons[row] == NULL_INPUT for row in chosen])
    wrong = np.flatnonzero((nulls != was_null) | ~(alike.good | nulls))
    return Rechecked(
        parts=1,
        faults=_faults_of(shard, [chosen[at] for at in wrong], alike),
        rows_compared=part.num_rows,
        rows_recomputed=len(chosen),
        lowest_likeness=float(alike.values[~nulls].min()) if (~nulls).any() else None,
    )


def _rows_of(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """Take rows one by one: slices work for every type of column."""
    return pa.concat_tables([table.slice(row, 1) for row in rows])


def _faults_of(shard: Shard, rows: Sequence[int], alike: Likeness) -> tuple[str, ...]:
    if not rows:
        return ()
    named = ", ".join(f"{row:,}" for row in rows[:NAMED_ROWS])
    more = f" and {len(rows) - NAMED_ROWS:,} more" if len(rows) > NAMED_ROWS else ""
    fault = (
        f"{shard.part}: computed again, its rows {named}{more} have other results "
        f"({alike.measure}); move the part away and run the job again"
    )
    return (fault,)
