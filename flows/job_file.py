"""Read a job: YAML and `--set` overrides in, a frozen Job or one clear error out."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from headrace.schemas.errors import JobError, did_you_mean
from headrace.schemas.job import Job
from headrace.schemas.steps import SETTINGS


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
    unknown = kind == "extra_forbidden"
    path, section = _path(where, unknown=unknown)
    key = ".".join(path)
    if unknown:
        return f"{key}: unknown key{_nearest(path[-1], section)}"
    if kind == "missing":
        return f"{key}: expected a value, got none"
    if kind == "value_error":  # a rule of our own, which says what came
        return f"{key}: {message.removeprefix('Value error, ')}"
    return f"{key}: {message[0].lower()}{message[1:]}, got {value!r:.80}"


def _path(
    where: tuple[int | str, ...], *, unknown: bool
) -> tuple[list[str], type[BaseModel] | None]:
    """Keep the job's own keys, and say which section holds the last one.

    Pydantic puts the branches of a union into the location too, a step's name among them.
    """
    section: type[BaseModel] | None = Job
    path: list[str] = []
    for at, part in enumerate(where):
        if unknown and at == len(where) - 1:
            return [*path, str(part)], section
        field = _fields(section).get(part) if isinstance(part, str) else None
        if isinstance(part, int) or field:
            path.append(str(part))
        if field:
            section = _section_of(field.annotation)
        elif section is None and isinstance(part, str):
            section = SETTINGS.get(part)
    return path, section


def _nearest(name: str, section: type[BaseModel] | None) -> str:
    known = list(_fields(section))
    near = did_you_mean(name, known)
    return near or (f"; known here: {', '.join(known)}" if known else "")


def _fields(section: type[BaseModel] | None) -> dict[str, FieldInfo]:
    """The section's fields by the name that a job file has."""
    fields = section.model_fields if section else {}
    return {field.alias or name: field for name, field in fields.items()}


def _section_of(annotation: object) -> type[BaseModel] | None:
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
