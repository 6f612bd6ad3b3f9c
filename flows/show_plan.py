"""How a plan and a machine look: one Rich table each (see show.py)."""

from rich.console import RenderableType

from headrace.flows.show import lines, row
from headrace.schemas.machine import GpuRoom, Machine
from headrace.schemas.plan import MemoryFit, ShapeGrid
from headrace.schemas.preview import Preview


def preview_view(plan: Preview) -> RenderableType:
    """What a run would do."""
    table = lines(f"headrace plan {plan.name!r}: nothing was run or written")
    row(table, "input", f"{plan.rows:,} rows in {plan.files:,} files")
    row(table, "shards", f"{plan.shards:,}, the largest of {plan.largest_shard_rows:,} rows")
    road = plan.road
    row(
        table,
        "road",
        f"{road.device}, {road.precision}, {road.layout}, {road.execution}: {road.reason}",
    )
    if road.text_reason:
        way = f"read by {road.frame}, tokenized by {road.tokenizer}"
        row(table, "texts", f"{way}: {road.text_reason}")
    row(table, "result", _result(plan))
    row(table, "shapes", _shapes(plan.grid))
    row(table, "padding", f"about {plan.grid.padding_share:.1%} of the computed tokens")
    row(table, "tokens", f"about {plan.estimated_tokens:,} (from {plan.grid.sample_rows:,} rows)")
    if plan.estimated_forward_s is not None:
        row(table, "time", f"about {plan.estimated_forward_s:,.0f} s on one worker like this one")
    money = "unknown without a price"
    if plan.estimated_cost is not None:
        money = f"about {plan.estimated_cost:.4f} {plan.currency} (estimated), start-up not counted"
    row(table, "cost", money)
    need, free = plan.needed_memory_bytes / 2**20, plan.free_memory_bytes / 2**20
    verdict = "fits" if plan.fits else "DOES NOT FIT: choose smaller shards"
    row(table, "memory", f"about {need:,.0f} MiB beside the input, {free:,.0f} MiB free: {verdict}")
    if plan.gpu_memory is not None:
        row(table, "GPU memory", _fit(plan.gpu_memory))
    row(table, "output", plan.output)
    return table


def _fit(memory: MemoryFit) -> str:
    parts = {
        "weights": memory.weights_bytes,
        "the largest batch": memory.activations_bytes,
        "cuDF's pool": memory.pool_bytes,
        "its readers": memory.texts_bytes,
        "headroom": memory.headroom_bytes,
    }
    listed = " + ".join(f"{name} {size / 2**20:,.0f}" for name, size in parts.items() if size)
    need, there = memory.needed_bytes / 2**20, memory.available_bytes / 2**20
    return f"{need:,.0f} MiB ({listed}), {there:,.0f} MiB free"


def _result(plan: Preview) -> str:
    result = plan.result
    if result.task == "embed":
        vector = "unit vectors" if result.normalize else "vectors"
        return f"{vector} of {result.width} {result.dtype}, {result.pooling} pooling"
    if result.threshold is None:
        return f"one of {result.width} labels, top {result.top_k}"
    return (
        f"of {result.width} labels those with a probability of {result.threshold:g} or more, "
        f"at most {result.top_k}"
    )


def _shapes(grid: ShapeGrid) -> str:
    if grid.packs:
        sizes = ", ".join(f"{size.tokens:,} ({size.rows:,})" for size in grid.packs)
        return f"packs of tokens (of rows at most): {sizes}"
    shapes = ", ".join(f"{shape.rows[0]} x {shape.length}" for shape in grid.shapes)
    return f"{len(grid.shapes)} (rows x tokens): {shapes}"


def machine_view(machine: Machine) -> RenderableType:
    """What a machine has."""
    table = lines("headrace doctor")
    row(table, "platform", machine.platform)
    row(table, "cores", str(machine.cores))
    row(table, "memory", f"{machine.memory_bytes / 2**30:,.1f} GiB")
    for gpu in machine.gpus:
        row(table, "GPU", f"{gpu.name} ({gpu.id})")
        row(table, "GPU memory", _room(gpu))
    if not machine.gpus:
        row(table, "GPUs", "none")
    row(table, "native bf16", "yes" if machine.bf16_native else "no")
    for name, version in machine.packages.items():
        row(table, name, version)
    for name, found in machine.optional.items():
        row(table, name, found or "not installed (optional)")
    for note in machine.notes:
        row(table, "note", note)
    return table


def _room(gpu: GpuRoom) -> str:
    if gpu.left_bytes is None:
        return "shared with the host"
    figures = [gpu.free_bytes, gpu.pool_bytes, gpu.headroom_bytes, gpu.left_bytes]
    free, pool, headroom, left = (f"{(size or 0) / 2**30:,.1f}" for size in figures)
    return (
        f"{free} GiB free - {pool} for cuDF's pool - {headroom} headroom = "
        f"{left} for a model and its batches"
    )
