"""Read a job: YAML and `--set` overrides in, a frozen Job or one clear error out."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from headrace.schemas.errors import JobError
from headrace.schemas.job import Job


def load_job(file: str | Path, overrides: Iterable[str] = ()) -> Job:
    """Read a job file.

    Args:
        file: the YAML file.
        overrides: `a.b=c` each; the value is read as YAML.

    Raises:
        JobError: the file can't be read, or is no valid job.
    """
    path = Path(file)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"expected a job file at {path}, got: {error.strerror}"
        raise JobError(msg) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        msg = f"expected YAML in {path}, got: {error}"
        raise JobError(msg) from error
    if not isinstance(content, dict):
        msg = f"expected a job (keys name, input, model, output) in {path}, got {content!r:.80}"
        raise JobError(msg)
    for override in overrides:
        _override(content, override)
    return parse_job(content)


def parse_job(content: Mapping[str, Any]) -> Job:
    """Validate a job given as plain data.

    Raises:
        JobError: it is no valid job; every fault is named, an unknown key with the nearest known.
    """
    try:
        return Job.model_validate(content)
    except ValidationError as error:
        lines = [
            _explain(fault["loc"], fault["type"], fault["msg"], fault["input"])
            for fault in error.errors()
        ]
        msg = "the job is not valid:\n  " + "\n  ".join(dict.fromkeys(lines))
        raise JobError(msg) from error


def _override(content: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        msg = f"--set: expected KEY=VALUE as in shards.target_rows=1000, got {override!r}"
        raise JobError(msg)
    *parents, last = key.split(".")
    section = content
    for parent in parents:
        if section.get(parent) is None:
            section[parent] = {}
        section = section[parent]
        if not isinstance(section, dict):
            msg = f"--set: expected {parent!r} in {override!r} to be a section, got {section!r}"
            raise JobError(msg)
    try:
        section[last] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        msg = f"--set: expected a YAML value in {override!r}, got: {error}"
        raise JobError(msg) from error


def _explain(where: tuple[int | str, ...], kind: str, message: str, value: object) -> str:
    path = _path(where, unknown=kind == "extra_forbidden")
    key = ".".join(path)
    if kind == "extra_forbidden":
        return f"{key}: unknown key{_nearest(path)}"
    if kind == "missing":
        return f"{key}: expected a value, got none"
    if key == "preprocess" and kind == "too_long":
        return "preprocess: expected an empty list; this version has no preprocessing steps"
    return f"{key}: {message[0].lower()}{message[1:]}, got {value!r:.80}"


def _path(where: tuple[int | str, ...], *, unknown: bool) -> list[str]:
    """Keep the job's own keys: pydantic puts the branches of a union into the location too."""
    section: type[BaseModel] | None = Job
    path = []
    for at, part in enumerate(where):
        field = section.model_fields.get(part) if section and isinstance(part, str) else None
        if isinstance(part, int) or field or (unknown and at == len(where) - 1):
            path.append(str(part))
        section = _section_of(field.annotation) if field else section
    return path


def _nearest(path: list[str]) -> str:
    section: type[BaseModel] | None = Job
    for part in path[:-1]:
        field = section.model_fields.get(part) if section else None
        section = _section_of(field.annotation) if field else None
    if section is None:
        return ""
    known = list(section.model_fields)
    near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known here: {', '.join(known)}"


def _section_of(annotation: object) -> type[BaseModel] | None:
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
