"""`headrace plan`: what a run would do, resolved on this machine. It writes nothing."""

import psutil

from headrace.schemas.job import Job
from headrace.schemas.preview import Preview
from headrace.stages.gpu_setup import prepare_environment
from headrace.stages.load_model import load_module
from headrace.stages.processor import choose_device
from headrace.stages.resolve import resolve
from headrace.stages.sample import sample_slices
from headrace.stages.survey import survey


def preview(job: Job) -> Preview:
    """Survey the job, sample its lengths, load the model and time it on a few batches.

    Raises:
        JobError: the job can't run.
    """
    surveyed = survey(job)
    shards = surveyed.cut()
    rows = sum(shard.rows for shard in shards)
    prepare_environment()
    device = choose_device(job.compute.device)
    resolved = resolve(
        job,
        surveyed.model,
        surveyed.source,
        sample_slices(shards),
        rows // len(shards),
        device,
        lambda precision: load_module(job.model, surveyed.model, device, precision),
    )
    grid = resolved.grid
    tokens = rows * grid.sample_tokens // grid.sample_rows if grid.sample_rows else 0
    padded = tokens / max(1e-9, 1.0 - grid.padding_share)
    speed = resolved.road.tokens_per_s
    seconds = padded / speed if speed else None
    price = job.price
    widest = max(shard.rows for shard in shards)
    return Preview(
        name=job.name,
        files=len(surveyed.files),
        rows=rows,
        shards=len(shards),
        largest_shard_rows=widest,
        grid=grid,
        road=resolved.road,
        result=resolved.facts,
        estimated_tokens=tokens,
        estimated_forward_s=seconds,
        estimated_cost=None
        if price is None or seconds is None
        else price.per_hour * seconds / 3600,
        currency=None if price is None else price.currency,
        weights_bytes=resolved.weights_bytes,
        shard_result_bytes=widest * resolved.facts.row_bytes,
        free_memory_bytes=int(psutil.virtual_memory().available),
        gpu_memory=resolved.memory,
        job_fingerprint=surveyed.job_fingerprint,
        input_fingerprint=surveyed.input_fingerprint,
        output=job.output.path,
    )
