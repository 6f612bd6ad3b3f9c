"""Step 7a: load the model once a worker: from safetensors by path, or from a user's factory."""

import os
from typing import Any

import torch

from headrace.schemas.errors import JobError
from headrace.schemas.job import ModelSpec, Precision
from headrace.stages.import_function import import_function
from headrace.stages.model_folder import ModelFolder
from headrace.stages.wording import in_short

DTYPES: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def load_module(
    spec: ModelSpec, model: ModelFolder, device: str, precision: Precision
) -> torch.nn.Module:
    """Load the job's model in evaluation mode on a device.

    Raises:
        JobError: the weights don't fit the architecture, or the factory gives no torch module.
    """
    dtype = DTYPES[precision]
    module = (
        _from_folder(spec, model, dtype)
        if spec.factory is None
        else _from_factory(spec, spec.factory, device, dtype)
    )
    return module.to(device).eval().requires_grad_(requires_grad=False)


def _from_folder(spec: ModelSpec, model: ModelFolder, dtype: torch.dtype) -> torch.nn.Module:
    os.environ["HF_HUB_OFFLINE"] = "1"  # a path is a path: never ask a hub
    from transformers import AutoModel, AutoModelForSequenceClassification
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    kind: Any = AutoModel if spec.task == "embed" else AutoModelForSequenceClassification
    try:
        module, found = kind.from_pretrained(
            model.path,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:
        msg = (
            f"model.path: expected a model that transformers loads for task {spec.task!r} in "
            f"{model.path}, got {in_short(error)} "
            "Copy the folder anew, or name a torch module of your own by model.factory."
        )
        raise JobError(msg) from error
    _refuse_random_weights(found, model, spec)
    loaded: torch.nn.Module = module
    return loaded


def _refuse_random_weights(found: dict[str, Any], model: ModelFolder, spec: ModelSpec) -> None:
    """Transformers fills weights that a file lacks with random ones, and only warns."""
    # An encoder's own pooler is not read for embeddings; many folders lack it.
    lacking = [key for key in found["missing_keys"] if ".pooler." not in f".{key}"]
    wrong = [str(entry[0]) for entry in found["mismatched_keys"]]
    if lacking or wrong:
        msg = (
            f"model.path: expected all weights for task {spec.task!r} in {model.path}, and these "
            f"are missing or of another shape: {sorted(lacking + wrong)[:5]}. "
            "Is it the right task for this model?"
        )
        raise JobError(msg)


def _from_factory(
    spec: ModelSpec, factory: str, device: str, dtype: torch.dtype
) -> torch.nn.Module:
    build = import_function(factory, "model.factory")
    try:
        module = build(torch.device(device), dtype, **spec.options)
    except Exception as error:
        msg = (
            f"model.factory: expected {factory}(device, dtype, **{spec.options}) to give a "
            f"torch.nn.Module, and it raised {in_short(error)}. Mend it, or model.options."
        )
        raise JobError(msg) from error
    if not isinstance(module, torch.nn.Module):
        msg = (
            f"model.factory: expected {factory} to give a torch.nn.Module, and it gave: "
            f"{type(module).__name__}. Let it return the module."
        )
        raise JobError(msg)
    return module
