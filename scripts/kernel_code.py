"""Compile every kernel to machine code, without a GPU, and say what it takes.

Triton kernels by Triton, CUDA C by NVRTC.

.venv/bin/python scripts/kernel_code.py            # a table
.venv/bin/python scripts/kernel_code.py --json     # for the tests
"""

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

os.environ.pop("TRITON_INTERPRET", None)
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # as Triton 3.9 does by itself, and warns

import triton
from nvrtc import compile_cubin
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from headrace.kernels.varlen_attention.launch import KEYS, QUERIES, WARPS

TARGETS = (80, 90, 100)
# op -> (pointers and scalars in order, compile-time values), one entry for each variant.
VARIANTS: dict[str, list[tuple[str, dict[str, int | bool]]]] = {
    "pad_gather": [
        ("*i32 *i64 *i64 *i64 *i64 *i64 *i64 *i64 i32 i32", {"FIRST": 1, "LAST": 1, "BLOCK": 256})
    ],
    "pack_gather": [
        (
            "*i32 *i64 *i64 *i32 *i64 *i64 *i32 *i32 i32 i32 i32",
            {"FIRST": 1, "LAST": 1, "STEPS": 13, "BLOCK": 256},
        )
    ],
    "softmax_topk": [
        (
            "*bf16 *fp32 *i64 *i1 i32 i32",
            {"K": k, "SIGMOID": sigmoid, "BLOCK": 1024},
        )
        for k, sigmoid in ((1, False), (32, False), (32, True))
    ],
    "bias_gelu": [
        ("*bf16 *bf16 *bf16 i64 i32", {"TANH": tanh, "BLOCK": 1024}) for tanh in (False, True)
    ],
    "residual_layernorm": [
        ("*bf16 *bf16 *bf16 *bf16 *bf16 *bf16 i32 fp32", {"BLOCK": block})
        for block in (512, 1024, 4096)
    ],
    "embed_layernorm": [
        ("*i32 *i32 *bf16 *bf16 *bf16 *bf16 *bf16 *bf16 i32 fp32", {"BLOCK": block})
        for block in (512, 1024)
    ],
    "pool_normalize": [
        (
            f"*bf16 *i32 *i32 *{out} *i1 *fp32 i32 i32",
            {"POOLING": pooling, "NORMALIZE": True, "FORM": form, "BLOCK": 512},
        )
        for pooling, form, out in (
            (0, 0, "fp32"),
            (1, 0, "fp16"),
            (2, 0, "fp32"),
            (3, 0, "fp32"),
            (0, 1, "i8"),
            (0, 2, "u8"),
        )
    ],
    "varlen_attention": [
        (
            f"*{dtype} *i32 *i32 *{dtype} fp32 i32",
            {"SIZE": size, "QUERIES": QUERIES, "KEYS": KEYS, "num_warps": warps},
        )
        for dtype, sizes in (("bf16", (32, 64, 128)), ("fp16", (32,)))
        for size, warps in WARPS.items()
        if size in sizes
    ],
}
# op -> its kernels in CUDA C, each a file of the op's folder and a function of that name.
CUDA_C = {"plain_rows": ("plain_rows",)}
KERNELS = Path(__file__).parents[1] / "kernels"
USAGE = re.compile(r"REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+)")


@dataclass(frozen=True)
class Code:
    """What one variant of a kernel takes on one target."""

    op: str
    variant: str
    target: int
    registers: int
    spilled_bytes: int  # of each thread's stack
    shared_bytes: int


def compile_all() -> list[Code]:
    """Compile every variant for every target."""
    by_triton = [
        compile_triton(op, types, values, target)
        for op, variants in VARIANTS.items()
        for types, values in variants
        for target in TARGETS
    ]
    return by_triton + [
        compile_cuda(op, name, target)
        for op, names in CUDA_C.items()
        for name in names
        for target in TARGETS
    ]


def compile_cuda(op: str, name: str, target: int) -> Code:
    """Compile a kernel in CUDA C, and ask NVIDIA's own tool what its code takes."""
    source = (KERNELS / op / f"{name}.cu").read_text()
    return _code(op, name, target, compile_cubin(source, target))


def compile_triton(op: str, types: str, values: dict[str, int | bool], target: int) -> Code:
    """Compile one variant, and ask NVIDIA's own tool what its code takes."""
    kernel = getattr(importlib.import_module(f"headrace.kernels.{op}.kernel"), f"{op}_kernel")
    values = dict(values)
    warps = int(values.pop("num_warps", 4))
    kinds = [*types.split(), *["constexpr"] * len(values)]
    signature = dict(zip(kernel.arg_names, kinds, strict=True))
    source = ASTSource(fn=kernel, signature=signature, constexprs=values)
    made = triton.compile(
        source, target=GPUTarget("cuda", target, 32), options={"num_warps": warps}
    )
    variant = " ".join(f"{name}={value}" for name, value in values.items()) + f" {kinds[0]}"
    code = _code(op, variant, target, made.asm["cubin"])
    return replace(code, shared_bytes=max(code.shared_bytes, int(made.metadata.shared)))


def _code(op: str, variant: str, target: int, cubin: bytes) -> Code:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run(  # noqa: S603 - Triton's own tool
            [_tool(), "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found = USAGE.search(said)
    assert found is not None, said
    return Code(
        op=op,
        variant=variant,
        target=target,
        registers=int(found["registers"]),
        spilled_bytes=int(found["stack"]),
        shared_bytes=int(found["shared"]),
    )


def _tool() -> str:
    """Find the cuobjdump that Triton brings along."""
    folder = Path(str(triton.__file__)).parent
    return str(next(folder.rglob("cuobjdump")))


def main() -> int:
    """Print what every kernel takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    codes = compile_all()
    if asked.json:
        print(json.dumps([asdict(code) for code in codes]))
        return 0
    print("| Kernel | Variant | Target | Registers | Spilled | Shared |")
    print("| --- | --- | --- | --- | --- | --- |")
    for code in codes:
        print(
            f"| {code.op} | {code.variant} | sm_{code.target} | {code.registers} | "
            f"{code.spilled_bytes} B | {code.shared_bytes} B |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
