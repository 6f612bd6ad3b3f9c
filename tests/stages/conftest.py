"""A tiny run, made by the stages themselves."""

import dataclasses
import functools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from headrace.schemas import layout
from headrace.schemas.job import Job
from headrace.stages.commit import CommitRecord, commit
from headrace.stages.device_thread import DeviceThread
from headrace.stages.encode import encode
from headrace.stages.forward import Forward
from headrace.stages.holding import read_footer_report
from headrace.stages.ledger import WorkerLedger
from headrace.stages.model_folder import open_model_folder
from headrace.stages.plan import draw_plan, write_plan
from headrace.stages.prepare import host_texts
from headrace.stages.shard import process_shard
from headrace.stages.stall import StallWatch
from headrace.stages.store import file_sha256, own_tmp, read_json
from headrace.stages.survey import survey
from headrace.stages.workplace import Workplace


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Two test processes with a thread a core each would mostly wait for each other."""
    torch.set_num_threads(1)


@dataclasses.dataclass
class TinyRun:
    """An output folder that the stages themselves made, and what it was made from."""

    job: Job
    survey: object
    plan: object
    place: object

    @property
    def out(self):
        return self.place.out

    @property
    def shards(self):
        return self.plan.shards

    def part(self, index):
        return self.out / self.shards[index].part

    def compute(self, *indices):
        return [process_shard(self.shards[index], 1, self.place) for index in indices]

    def succeed(self):
        (self.out / layout.SUCCESS).touch()

    def recommit(self, index, *, table=None, report=None, errors_sha256=None):
        """Replace a part by other contents, committed as if they were right."""
        old = self.part(index)
        record = self.out / layout.commit_path(old.name, file_sha256(old))
        listed = errors_sha256 or read_json(record, CommitRecord).errors_sha256
        table = pq.read_table(old, partitioning=None) if table is None else table
        report = read_footer_report(old) if report is None else report
        old.unlink()
        tmp = own_tmp(self.out)
        tmp_file = encode(table, tmp, "zstd", report)
        return commit(tmp_file, self.out, old.name, report, listed, tmp)


STALL = StallWatch(900.0)
TEXTS = (
    ["one", "two three", None, "", "boom", "one two three four", "nan", "four", "mud", "three one"],
    ["two", "two", None, "one one one one one"],
)


@pytest.fixture(scope="session")
def device():
    return DeviceThread(1)


@pytest.fixture(scope="session")
def run_over(make_job, make_resolved, tiny_model, tiny_encoder, device):
    """Make a run of shards of five rows over the folder `in`; none is computed yet."""

    def make(folder, price=None, **changes):
        known = {
            "input__path": str(folder / "in"),
            "model__path": str(tiny_model),
            "output__path": str(folder / "out"),
            "shards__target_rows": 5,
        }
        job = make_job(**known | changes)
        surveyed = survey(job)
        out = Path(job.output.path)
        out.mkdir()
        plan = write_plan(out, draw_plan(surveyed, surveyed.cut(), make_resolved()), surveyed)
        model = open_model_folder(job.model)
        place = Workplace(
            out=out,
            source=surveyed.source,
            header=plan.header,
            texts=host_texts(job, model),
            forward=Forward(tiny_encoder(), "cpu", plan.header.result, 0),
            device=device,
            ledger=WorkerLedger(0.0, clock=iter(range(10**6)).__next__),
            price=price,
            invocation="unit",
            name="unit-host-1",
            stall=STALL,
        )
        return TinyRun(job, surveyed, plan, place)

    return make


@pytest.fixture
def tiny_run(tmp_path, run_over):
    """Make a run of three shards (5, 5 and 4 rows) from two files; none is computed yet."""
    source = tmp_path / "in"
    source.mkdir()
    for at, texts in enumerate(TEXTS):
        table = pa.table({"id": pa.array(range(len(texts)), pa.int64()), "text": texts})
        pq.write_table(table, source / f"{at}.parquet", row_group_size=5)
    return functools.partial(run_over, tmp_path)


@pytest.fixture
def finished_run(tiny_run):
    """Make a whole output of the tiny run."""

    def make(**changes):
        run = tiny_run(**changes)
        run.compute(*range(len(run.shards)))
        run.succeed()
        return run

    return make
