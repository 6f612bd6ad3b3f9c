"""WHAT a Dask worker process does: get ready once, then one shard a task, around one device thread.

The client submits these functions by their names (flows/order.py): this module loads torch.
"""

import shutil
import threading
from dataclasses import dataclass, field

import pyarrow as pa
import torch
from distributed import get_worker

from headrace.flows.order import NotBegun, Order
from headrace.schemas import layout
from headrace.schemas.errors import HeadraceError, PreemptedError
from headrace.schemas.job import Job, Precision
from headrace.schemas.plan import PlanHeader, Resolved, Shard, Slice
from headrace.schemas.report import ShardReport
from headrace.stages.cores import own_cores
from headrace.stages.cuda import device_uuid
from headrace.stages.device_thread import DeviceThread
from headrace.stages.gpu_setup import prepare_environment
from headrace.stages.journal import Journal, now_unix_s, process_started_unix_s
from headrace.stages.ledger import WorkerLedger
from headrace.stages.listing import base_place
from headrace.stages.load_model import load_module
from headrace.stages.model_folder import ModelFolder, model_digest, open_model_folder
from headrace.stages.notice import Notice
from headrace.stages.nvml import Gauge
from headrace.stages.open_forward import open_forward
from headrace.stages.processor import choose_device, multiplies_bf16
from headrace.stages.read import Source
from headrace.stages.resolve import resolve
from headrace.stages.shard import process_shard
from headrace.stages.stall import StallWatch
from headrace.stages.store import own_tmp, read_json, writing
from headrace.stages.text_road import open_text_road
from headrace.stages.trial import Load
from headrace.stages.workplace import Workplace


@dataclass
class _Process:
    """What this process keeps between tasks."""

    lock: threading.Lock
    device: DeviceThread | None = None
    model: tuple[str, torch.nn.Module] | None = None  # the last one loaded, by what it is
    order: Order | None = None
    place: Workplace | None = None
    journal: Journal | None = None
    drained: str | None = None  # the invocation whose shards are not begun any more
    notice: Notice = field(default_factory=Notice)


_PROCESS = _Process(threading.Lock())


def resolve_on_worker(
    job: Job,
    base: str,
    schema: pa.Schema,
    slices: list[Slice],
    shard_rows: int,
    workers_on_host: int,
    careful: bool,  # noqa: FBT001 - Dask's client gives arguments by place
) -> Resolved:
    """Resolve shapes, precision and width on this worker (stages/resolve.py)."""
    prepare_environment()
    source = Source(base_place(job, base), job.input, schema)
    model = open_model_folder(job.model)
    device = choose_device(job.compute.device)
    with _PROCESS.lock:
        thread = _device_thread(workers_on_host)
        return thread.run(
            lambda: resolve(
                job,
                model,
                source,
                slices,
                shard_rows,
                device,
                _loader(job, model, device),
                careful=careful,
            )
        )


def get_ready(order: Order) -> str:
    """Load plan, tokenizer and model, and begin the journal. Returns the worker's name.

    Raises:
        HeadraceError: this worker can't take the plan's road.
    """
    return _place(order).name


def run_shard(order: Order, shard: Shard, attempt: int) -> ShardReport | NotBegun | None:
    """Compute and commit one shard, unless its part is there already. Returns its report or None.

    Raises:
        OutputError: the output's disk does not take the part.
        HeadraceError: this worker can't take the plan's road, or the shard can't be computed.
    """
    if _PROCESS.notice.given or _PROCESS.drained == order.invocation:
        return NotBegun(leaving=_PROCESS.notice.given)
    if (order.out / shard.part).exists():
        return None
    try:
        report = process_shard(shard, attempt, _place(order))
    except PreemptedError:
        return NotBegun(leaving=True)
    if _PROCESS.journal is not None:
        with writing(order.out, refusals_only=True):
            _PROCESS.journal.beat()
    return report


def begin_no_more(invocation: str) -> None:
    """Finish the shards of this run that were begun, and begin no other."""
    _PROCESS.drained = invocation


def leave(seconds_left: float) -> None:
    """Begin no shard any more, whatever the run, and finish those that can be done by then."""
    _PROCESS.notice.give(seconds_left)


def say_goodbye(invocation: str | None) -> None:
    """Write the journal's last record of this run; None: of whichever run it is."""
    with _PROCESS.lock:
        order, journal = _PROCESS.order, _PROCESS.journal
        if journal is not None and order is not None and invocation in (None, order.invocation):
            journal.close()
            shutil.rmtree(own_tmp(order.out))


def _place(order: Order) -> Workplace:
    with _PROCESS.lock:
        if _PROCESS.place is None or _PROCESS.order != order:
            if _PROCESS.journal is not None:
                _PROCESS.journal.close()
            if _PROCESS.place is not None:
                _PROCESS.place.stall.close()
            _PROCESS.place = _set_up(order)
            _PROCESS.order = order
        return _PROCESS.place


def _set_up(order: Order) -> Workplace:
    prepare_environment()
    header = read_json(order.out / layout.PLAN, PlanHeader)
    ledger = WorkerLedger(process_started_unix_s() if order.own_process else now_unix_s())
    _refuse_road(header)
    model = open_model_folder(order.job.model)
    if not order.own_process:
        _refuse_other_model(header, model)
    host = own_host()
    price = order.worker_price(host)
    thread = _device_thread(order.siblings(host))
    load = _loader(order.job, model, header.road.device)
    forward = thread.run(lambda: open_forward(header, model, load))
    source = Source(base_place(order.job, order.base), header.job.input, header.dataset_schema)
    texts = open_text_road(header.job, model, source, header.road)
    with writing(order.out, refusals_only=True):
        _PROCESS.journal = Journal(order.out, order.invocation, ledger, price)
    ledger.ready()
    return Workplace(
        out=order.out,
        source=source,
        header=header,
        texts=texts,
        forward=forward,
        device=thread,
        ledger=ledger,
        price=price,
        invocation=order.invocation,
        name=_PROCESS.journal.name,
        stall=StallWatch(order.job.compute.stall_timeout_s),
        notice=_PROCESS.notice,
        gauge=Gauge(device_uuid()) if header.road.device == "cuda" else None,
    )


def own_host() -> str:
    """This worker's host, as the scheduler names it."""
    return str(get_worker().address).rpartition("//")[2].rpartition(":")[0]


def _refuse_road(header: PlanHeader) -> None:
    road = header.road
    if road.device == "cuda" and not torch.cuda.is_available():
        msg = "the plan was made for a CUDA GPU, and this worker has none"
        raise HeadraceError(msg)
    by_itself = header.job.model.precision == "auto"
    if road.precision == "bf16" and by_itself and not multiplies_bf16(road.device):
        msg = "the plan was made for native bf16, which this worker's processor lacks"
        raise HeadraceError(msg)


def _refuse_other_model(header: PlanHeader, model: ModelFolder) -> None:
    planned, found = header.job_fields["model.digest"], model_digest(model.path)
    if found != planned:
        msg = f"expected the plan's model {planned}, and this worker has {found} at {model.path}"
        raise HeadraceError(msg)


def _device_thread(workers_on_host: int) -> DeviceThread:
    if _PROCESS.device is None:
        _PROCESS.device = DeviceThread(own_cores(workers_on_host))
    return _PROCESS.device


def _loader(job: Job, model: ModelFolder, device: str) -> Load:
    """Load a model in a precision, or hand out the one that was loaded last."""

    def load(precision: Precision) -> torch.nn.Module:
        key = f"{job.model.model_dump_json()} {model.path} {device} {precision}"
        if _PROCESS.model is None or _PROCESS.model[0] != key:
            _PROCESS.model = (key, load_module(job.model, model, device, precision))
        return _PROCESS.model[1]

    return load
