"""Step 1g for texts: whether they are read, preprocessed and tokenized on the GPU.

The GPU's way is taken only where its tokens are those of the model's own tokenizer: for texts of
the input, for texts made to be hard, and for whole slices of the input as a shard would take them.
"""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from headrace.schemas.errors import HeadraceError, ShardError
from headrace.schemas.job import Job
from headrace.schemas.plan import FrameRoad, Road, Slice
from headrace.schemas.steps import Python, Replace
from headrace.stages.cudf_frame import DEVICE_FAULTS
from headrace.stages.device_texts import DeviceTexts
from headrace.stages.model_folder import ModelFolder
from headrace.stages.places import is_local
from headrace.stages.prepare import HostTexts, Prepared, TextRoad, host_texts
from headrace.stages.read import Source, read_slices
from headrace.stages.spans import Spans
from headrace.stages.sticky import end_if_sticky
from headrace.stages.wording import in_short
from headrace.stages.wordpiece import WordPiece, WordPieceSpec, read_spec, torture

CHECKED_ROWS = 256  # of each sampled slice
HELD_ALIKE = "the GPU's tokens are those of the model's own tokenizer"


@dataclass(frozen=True)
class TextChoice:
    """What the plan says of the texts' road."""

    frame: FrameRoad = "arrow"
    tokenizer: Literal["tokenizers", "cudf"] = "tokenizers"
    reason: str = ""


def choose_text_road(
    job: Job,
    model: ModelFolder,
    source: Source,
    slices: Sequence[Slice],
    texts: pa.LargeStringArray,
    device: str,
) -> TextChoice:
    """Choose the texts' road, on a worker.

    Args:
        job: the job.
        model: its model folder.
        source: the input.
        slices: of it, to be read both ways.
        texts: a sample of the model's texts.
        device: where the model runs.
    """
    if device != "cuda":
        return TextChoice()
    wordpiece = _wordpiece(model)
    if not isinstance(wordpiece, WordPiece):
        return TextChoice(reason=wordpiece)
    host = host_texts(job, model)
    why = _differing_texts(DeviceTexts(host, source, wordpiece, "arrow", device), texts)
    if why is not None:
        return TextChoice(reason=why)
    why = _not_for_cudf(job, source)
    if why is None:
        why = _differing_slices(
            DeviceTexts(host, source, wordpiece, "cudf", device), source, slices
        )
    if why is not None:
        return TextChoice("arrow", "cudf", f"{HELD_ALIKE}; texts are made on the host: {why}")
    return TextChoice("cudf", "cudf", HELD_ALIKE)


def _wordpiece(model: ModelFolder) -> WordPiece | str:
    """Make the GPU's tokenizer, or say why there is none."""
    if importlib.util.find_spec("cudf") is None:
        return "cuDF is not installed; see the extra cuda13"
    spec = read_spec(model.path)
    if not isinstance(spec, WordPieceSpec):
        return spec
    try:
        return WordPiece(spec)
    except (ImportError, *DEVICE_FAULTS) as error:
        end_if_sticky(error)
        return f"cuDF does not work here: {in_short(error)}"


def open_text_road(job: Job, model: ModelFolder, source: Source, road: Road) -> TextRoad:
    """Load what the plan's road needs, on a worker.

    Raises:
        HeadraceError: this worker can't take it.
    """
    host = host_texts(job, model)
    if road.tokenizer == "tokenizers":
        return host
    wordpiece = _wordpiece(model)
    if not isinstance(wordpiece, WordPiece):
        msg = f"the plan was made for cuDF, and this worker lacks it: {wordpiece}"
        raise HeadraceError(msg)
    return DeviceTexts(host, source, wordpiece, road.frame, road.device)


def _differing_texts(road: DeviceTexts, texts: pa.LargeStringArray) -> str | None:
    """Compare the tokens of finished texts, those of the sample and hard ones."""
    hard = pa.array(torture(road.wordpiece.spec), pa.large_string())
    for name, some in (("texts made to be hard", hard), ("texts of the input", texts)):
        table = pa.table({"text": some})
        spec = road.host.job.input.model_copy(update={"text": "text"})
        update = {"input": spec, "preprocess": ()}
        job = road.host.job.model_copy(update=update)
        host = replace(road.host, job=job, prompt="")
        why = token_difference(replace(road, host=host), table, [])
        if why is not None:
            return f"of {name}, {why}"
    return None


def _not_for_cudf(job: Job, source: Source) -> str | None:
    """Say why cuDF can't read and preprocess the job's columns."""
    if job.input.format != "parquet":
        return f"the input is {job.input.format}"
    if not is_local(source.base):
        return "the input is on an object store"
    for step in job.preprocess:
        if isinstance(step, Python):
            return "a python step needs all rows at once"
        if isinstance(step, Replace) and step.replace.regex:
            return "cuDF has regular expressions of its own, not RE2's"
    for name in job.input.text_columns:
        kind = source.schema.field(name).type
        if kind not in (pa.string(), pa.large_string()):
            return f"the column {name!r} is of type {kind}"
    return None


def _differing_slices(road: DeviceTexts, source: Source, slices: Sequence[Slice]) -> str | None:
    """Compare the tokens of slices of the input, read and preprocessed both ways."""
    columns = road.host.job.input.text_columns
    for piece in slices:
        some = replace(piece, rows=min(piece.rows, CHECKED_ROWS))
        try:
            table = read_slices(source, [some], columns)
        except ShardError:  # its shard will fail by name
            continue
        why = token_difference(road, table, [some])
        if why is not None:
            return f"of {piece.path}, {why}"
    return None


def token_difference(road: DeviceTexts, table: pa.Table, slices: Sequence[Slice]) -> str | None:
    """Say how the tokens of both roads differ, if they do, or what failed on the device."""
    here, there = (one.prepare(table, slices, Spans()) for one in (road, road.host))
    if here.device_faults:
        return f"the GPU failed: {sorted(here.device_faults)}"
    if (here.ragged.present != there.ragged.present).any() or here.faults != there.faults:
        return "other rows have tokens on the GPU"
    ours, own = (_rows(prepared, road.host) for prepared in (here, there))
    differing = sum(left != right for left, right in zip(ours, own, strict=True))
    return f"{differing} of {len(own)} rows have other tokens on the GPU" if differing else None


def _rows(prepared: Prepared, host: HostTexts) -> list[list[int]]:
    """List each row's tokens as the model would get them."""
    ragged = prepared.ragged
    ids = np.asarray(ragged.ids.cpu() if hasattr(ragged.ids, "cpu") else ragged.ids)
    before, behind = list(ragged.specials.before), list(ragged.specials.behind)
    room = host.max_length - ragged.specials.count
    return [
        [*before, *ids[start : start + min(count, room)].tolist(), *behind] if there else []
        for start, count, there in zip(ragged.starts, ragged.counts, ragged.present, strict=True)
    ]
