"""The cases of `make fuzz`: each is made from its number alone, and damages a file or a job.

All runs in this process, by the stages that a worker runs, with a tiny model of the tests.
"""

import importlib.util
import io
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml

from headrace.flows.job_file import load_job
from headrace.schemas.errors import HeadraceError, JobError, ShardError
from headrace.schemas.job import Job
from headrace.schemas.plan import Resolved, ResultFacts, Road, Shape, ShapeGrid, Shard
from headrace.stages.device_thread import DeviceThread
from headrace.stages.forward import Forward
from headrace.stages.ledger import WorkerLedger
from headrace.stages.plan import draw_plan, write_plan
from headrace.stages.prepare import host_texts
from headrace.stages.shard import process_shard
from headrace.stages.stall import StallWatch
from headrace.stages.survey import survey
from headrace.stages.workplace import Workplace

ROOT = Path(__file__).parents[1]
WORK = ROOT / "out" / "fuzz"
LENGTH = 8


def load(path: Path) -> ModuleType:
    """Import a file of the tests by its path: the tests are no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def base_tables() -> list[pa.Table]:
    """Tables to make files of: plain, long, and with every type."""
    texts = ["one", None, "", "two three", "x" * 300, "ü\0"] * 20
    plain = pa.table({"text": texts, "id": range(len(texts)), "x": [at / 3 for at in range(120)]})
    every = load(ROOT / "tests/system/every_type.py").every_type()
    return [plain, pa.table({"text": texts[:6], **every}), plain.select(["text"])]


def base_file(rng: random.Random, tables: list[pa.Table]) -> bytes:
    """Write one of the tables in one of the ways that Parquet may be written."""
    sink = io.BytesIO()
    pq.write_table(
        rng.choice(tables),
        sink,
        compression=rng.choice(["none", "snappy", "zstd", "gzip", "lz4"]),
        data_page_version=rng.choice(["1.0", "2.0"]),
        use_dictionary=rng.random() < 0.5,
        write_page_checksum=rng.random() < 0.5,
        write_statistics=rng.random() < 0.5,
        store_schema=rng.random() < 0.8,
        row_group_size=rng.choice([1, 3, 50, 1000]),
        data_page_size=rng.choice([64, 1024 * 1024]),
    )
    return sink.getvalue()


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Damage a file in one of the ways that disks, copies and bugs do."""
    out = bytearray(data)
    footer = int.from_bytes(data[-8:-4], "little") + 8 if len(data) > 12 else 0
    low = rng.choice([0, max(0, len(out) - footer)])  # anywhere, or the footer alone
    at = rng.randrange(low, len(out))
    span = rng.choice([1, 4, 16, 256])
    match rng.randrange(6):
        case 0:
            for _ in range(rng.choice([1, 1, 2, 8])):
                out[rng.randrange(low, len(out))] ^= 1 << rng.randrange(8)
        case 1:
            out[at : at + span] = bytes(len(out[at : at + span]))
        case 2:
            out[at : at + span] = rng.randbytes(len(out[at : at + span]))
        case 3:
            del out[at : at + span]
        case 4:
            out[at:at] = out[at : at + span]
        case 5:
            out = out[:at] if rng.random() < 0.3 else out[:at] + bytes(8) + out[-footer:]
    return bytes(out)


def mutate_job(rng: random.Random, job: dict[str, object]) -> bytes:
    """Damage a job file: its text, or the value of one of its keys."""
    text = yaml.safe_dump(job)
    if rng.random() < 0.4:
        return mutate(rng, text.encode() + b"\n" * 13)
    odd: list[object] = [None, -1, 0, 1e400, "", "x", [], [[]], {}, {"a": 1}, True, "\0", 10**30]
    odd += ["${HOME}", "s3://b/k", "a" * 5000, ["text", "text"], {"": None}, "package:os", ".."]
    content = yaml.safe_load(text)
    section = content
    key = rng.choice(list(section))
    while isinstance(section[key], dict) and section[key] and rng.random() < 0.8:
        section = section[key]
        key = rng.choice(list(section))
    section[rng.choice([key, key, key + "s", "new"])] = rng.choice(odd)
    if rng.random() < 0.3:
        del section[key]
    return yaml.safe_dump(content).encode()


@dataclass(frozen=True)
class Run:
    """A planned job and the place to compute its shards."""

    shards: tuple[Shard, ...]
    place: Workplace


class Cases:
    """Runs cases by their numbers."""

    def __init__(self) -> None:
        """Make what the cases share: a tiny model, loaded once."""
        conftest = load(ROOT / "tests/conftest.py")
        self.folder = WORK / "now"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.model = conftest._write_model(WORK / "model")  # noqa: SLF001 - the tests' own
        self.encoder = load(ROOT / "tests/system/tiny_models.py").build("cpu", torch.float32)
        self.device = DeviceThread(1)
        self.stall = StallWatch(900.0)
        self.tables = base_tables()

    def job(self) -> dict[str, object]:
        """A job that runs."""
        return {
            "name": "fuzz",
            "input": {"path": str(self.folder / "in"), "text": "text", "limit": None},
            "model": {"path": str(self.model), "task": "embed", "max_length": 8},
            "preprocess": ["strip", {"truncate_chars": 5}, {"replace": {"find": "a", "with": "b"}}],
            "shards": {"target_rows": 40},
            "compute": {"device": "cpu", "workers": 1, "max_shapes": 4},
            "errors": {"mode": "drop", "max_ratio": 0.5},
            "price": {"per_hour": 1.5, "currency": "EUR"},
            "output": {"path": str(self.folder / "out"), "columns": ["text"]},
        }

    def run(self, number: int) -> str:
        """Run one case. Returns a word for what became of it; raises what must not happen."""
        rng = random.Random(number)  # noqa: S311 - repeatable on purpose
        for name in ("in", "out"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "in").mkdir()
        if rng.random() < 0.3:
            return self._job_case(rng)
        return self._file_case(rng)

    def _job_case(self, rng: random.Random) -> str:
        (self.folder / "in/a.parquet").write_bytes(base_file(rng, self.tables[:1]))
        (self.folder / "job.yaml").write_bytes(mutate_job(rng, self.job()))
        try:
            survey(load_job(self.folder / "job.yaml"))
        except HeadraceError as error:
            assert len(str(error)) < 4000, "a message must be of a few lines"
            return "job refused"
        return "job taken"

    def _file_case(self, rng: random.Random) -> str:
        file = self.folder / "in/a.parquet"
        file.write_bytes(mutate(rng, base_file(rng, self.tables)))
        try:
            run = self._plan()
        except JobError:
            return "file refused"
        failed = 0
        for shard in run.shards:
            try:
                process_shard(shard, 1, run.place)
            except ShardError as error:
                assert "a.parquet" in str(error), "the message must name the file"
                failed += 1
            else:
                check_rows(run, shard, file)
        return f"{'some' if failed else 'no'} shards failed"

    def _plan(self) -> Run:
        content = self.job()
        del content["preprocess"], content["errors"]
        content["output"] = {"path": str(self.folder / "out")}
        surveyed = survey(Job.model_validate(content))
        out, shards = self.folder / "out", surveyed.cut()
        out.mkdir()
        grid = ShapeGrid(
            shapes=(Shape(length=LENGTH, rows=(16, 4, 1)),),
            batch_tokens=128,
            sample_rows=0,
            sample_tokens=0,
            padding_share=0.0,
        )
        facts = ResultFacts(
            task="embed", width=8, max_length=LENGTH, pooling="mean", normalize=True
        )
        road = Road(device="cpu", precision="fp32", reason="fuzz", tokens_per_s=None)
        plan = draw_plan(surveyed, shards, Resolved(grid, road, facts, weights_bytes=0))
        header = write_plan(out, plan, surveyed).header
        place = Workplace(
            out=out,
            source=surveyed.source,
            header=header,
            texts=host_texts(header.job, surveyed.model),
            forward=Forward(self.encoder, "cpu", facts, 0),
            device=self.device,
            ledger=WorkerLedger(0.0),
            price=None,
            invocation="fuzz",
            name="fuzz",
            stall=self.stall,
        )
        return Run(shards, place)


def check_rows(run: Run, shard: Shard, file: Path) -> None:
    """Compare a part with what pyarrow reads of the same rows."""
    got = pq.read_table(run.place.out / shard.part)
    with pq.ParquetFile(file) as source:
        slices = [
            source.read_row_group(piece.row_group).slice(piece.row_start, piece.rows)
            for piece in shard.slices
        ]
    schema = run.place.header.dataset_schema
    for name in schema.names:
        kind = schema.field(name).type
        chunks = [chunk for table in slices for chunk in table.column(name).cast(kind).chunks]
        left, right = got.column(name), pa.chunked_array(chunks, kind)
        # NaN equals nothing, and prints as itself.
        same = left.equals(right) or repr(left.to_pylist()) == repr(right.to_pylist())
        assert same, f"column {name!r} is not what the file holds"
