"""Steps 1c and 1g: the task's options against the model, and what the model gives for them."""

from typing import Final

from headrace.schemas.errors import JobError
from headrace.schemas.job import Job
from headrace.schemas.plan import ResultFacts
from headrace.stages.model_folder import ModelFolder

# What transformers calls a classifier's problem_type.
SINGLE_LABEL: Final = (None, "single_label_classification")
DEFAULT_THRESHOLD = 0.5


def check_task(job: Job, model: ModelFolder) -> None:
    """Check a classifier's options against its configuration, before anything is loaded.

    Raises:
        JobError: they don't fit together.
    """
    if job.model.task != "classify":
        return
    if job.output.dtype != "float32":
        msg = (
            f"output.dtype: expected float32 for task: classify, got {job.output.dtype}. "
            "It is for vectors; scores stay float32."
        )
        raise JobError(msg)
    kind = model.config.get("problem_type")
    if kind not in SINGLE_LABEL and not model.multi_label:
        msg = (
            f"model.task: expected a single-label or multi-label classifier, got problem_type "
            f"{kind!r} in {model.path}. This version runs no other."
        )
        raise JobError(msg)
    if job.model.threshold is not None and not model.multi_label:
        msg = (
            f"model.threshold: expected a multi-label classifier, got problem_type {kind!r} in "
            f"{model.path / 'config.json'}. Leave it out, or say there what the model is."
        )
        raise JobError(msg)
    if model.labels:
        _check_top_k(job, len(model.labels))


def result_facts(job: Job, model: ModelFolder, width: int) -> ResultFacts:
    """Say what the model gives, once one row has told its width.

    Args:
        job: the job.
        model: its model folder.
        width: the values of the model's vector, or how many logits it gives.

    Raises:
        JobError: the job asks for more values or classes than there are.
    """
    if job.model.task == "embed":
        return _vector_facts(job, model, width)
    return _class_facts(job, model, width)


def _vector_facts(job: Job, model: ModelFolder, width: int) -> ResultFacts:
    most = job.model.truncate_dim
    if most is not None and most > width:
        msg = (
            f"model.truncate_dim: expected at most the model's {width} values, got {most}. "
            "Leave it out to keep them all."
        )
        raise JobError(msg)
    return ResultFacts(
        task="embed",
        width=most or width,
        truncate_dim=most,
        dtype=job.output.dtype,
        max_length=model.max_length,
        pooling=model.pooling,
        normalize=job.model.normalize,
    )


def _class_facts(job: Job, model: ModelFolder, width: int) -> ResultFacts:
    """Choose as transformers' TextClassificationPipeline does: one class alone gets a sigmoid."""
    _check_top_k(job, width)
    wanted = job.model.threshold
    threshold = DEFAULT_THRESHOLD if wanted is None else wanted
    return ResultFacts(
        task="classify",
        width=width,
        labels=model.labels if len(model.labels) == width else tuple(map(str, range(width))),
        activation="sigmoid" if model.multi_label or width == 1 else "softmax",
        threshold=threshold if model.multi_label else None,
        top_k=job.model.top_k or (width if model.multi_label else 1),
        max_length=model.max_length,
        pooling=model.pooling,
        normalize=job.model.normalize,
    )


def _check_top_k(job: Job, classes: int) -> None:
    wanted = job.model.top_k
    if wanted is not None and wanted > classes:
        msg = f"model.top_k: expected at most the model's {classes} classes, got {wanted}"
        raise JobError(msg)
