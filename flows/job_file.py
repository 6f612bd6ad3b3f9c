"""Read a job: YAML and `--set` overrides in, a frozen Job or one clear error out."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from headrace.flows.plain_words import expected
from headrace.flows.strict_yaml import read_yaml
from headrace.schemas.errors import JobError
from headrace.schemas.job import Job
from headrace.schemas.steps import SETTINGS
from headrace.stages.wording import suggest

# Nobody writes a longer job; data that was named by mistake is not read whole.
MOST_CHARACTERS = 1_000_000
SHOWN_FAULTS = 6


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
        with path.open(encoding="utf-8") as source:
            text = source.read(MOST_CHARACTERS + 1)
        if len(text) > MOST_CHARACTERS:
            msg = f"more than {MOST_CHARACTERS:,} characters"
            raise ValueError(msg)  # noqa: TRY301 - said as all that is wrong with the file
        content = read_yaml(text)
    except OSError as error:
        msg = f"expected a job file at {path}, got: {error.strerror}. Check the path."
        raise JobError(msg) from error
    except ValueError as error:
        msg = f"expected YAML in {path}, got: {error}. Mend the file; docs/job.md has a whole one."
        raise JobError(msg) from error
    if not isinstance(content, dict):
        kind = "nothing" if content is None else f"a {type(content).__name__}"
        msg = (
            f"expected a job (keys name, input, model, output) in {path}, got {kind}. "
            "docs/job.md has a whole one."
        )
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
        lines = _explain_all(error.errors())
        if len(lines) > SHOWN_FAULTS:
            lines[SHOWN_FAULTS:] = [f"… and {len(lines) - SHOWN_FAULTS} more"]
        msg = "the job is not valid:\n  " + "\n  ".join(lines)
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
            msg = f"--set: expected {parent!r} in {override!r} to be a section, got {section!r:.80}"
            raise JobError(msg)
    try:
        section[last] = read_yaml(text)
    except ValueError as error:
        msg = f"--set: expected a YAML value in {override!r:.80}, got: {error}"
        raise JobError(msg) from error


def _explain_all(faults: Iterable[Mapping[str, Any]]) -> list[str]:
    """Explain each key once: a key that may be one of several things has a fault for each."""
    lines: dict[str, str] = {}
    wanted: dict[str, list[str]] = {}
    for fault in faults:
        path, section = _path(fault["loc"], unknown=fault["type"] == "extra_forbidden")
        key = ".".join(path)
        line = _explain(path, section, fault["type"], fault["msg"])
        if line is not None:
            lines[key] = line
            continue
        words = wanted.setdefault(key, [])
        words.append(expected(fault["type"], fault["msg"], fault.get("ctx", {})))
        got = "none" if fault["type"] == "missing" else f"{fault['input']!r:.80}"
        lines[key] = f"{key}: expected {' or '.join(dict.fromkeys(words))}, got {got}"
    return list(lines.values())


def _explain(
    path: list[str], section: type[BaseModel] | None, kind: str, message: str
) -> str | None:
    """Explain a fault that is not one of a value alone."""
    key = ".".join(path)
    if kind == "extra_forbidden":
        return f"{key}: unknown key{_nearest(path[-1], section)}"
    if kind == "value_error":
        return f"{key}: {message.removeprefix('Value error, ')}"
    return None


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
    return suggest(name, known, "known here") if known else ""


def _fields(section: type[BaseModel] | None) -> dict[str, FieldInfo]:
    """The section's fields by the name that a job file has."""
    fields = section.model_fields if section else {}
    return {field.alias or name: field for name, field in fields.items()}


def _section_of(annotation: object) -> type[BaseModel] | None:
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
