"""Step 1e: the two fingerprints that say whether an output folder belongs to this job and input."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from headrace.schemas.job import Job
from headrace.schemas.plan import InputFile, PlanHeader
from headrace.stages.store import digest

SHOWN_DIFFERENCES = 5


def job_fields(job: Job, digest_of_model: str) -> dict[str, JsonValue]:
    """Everything that can change a result, by dotted name. Compute and price are not in it."""
    model = job.model.model_dump(mode="json", exclude={"path", "sha256"})
    fields: dict[str, JsonValue] = {f"model.{key}": value for key, value in model.items()}
    return fields | {
        "input.text": list(job.input.text_columns),
        "input.limit": job.input.limit,
        "input.format": job.input.format,
        "input.types": dict(job.input.types),
        "input.csv": job.input.csv.model_dump(mode="json"),
        "input.binary_as_text": job.input.binary_as_text,
        "model.digest": digest_of_model,
        "preprocess": job.model_dump(mode="json")["preprocess"],
        "errors.mode": job.errors.mode,
        "output.columns": None if job.output.columns is None else list(job.output.columns),
        "output.prefix": job.output.prefix,
        "output.dtype": job.output.dtype,
    }


def job_fingerprint(fields: Mapping[str, JsonValue]) -> str:
    """SHA-256 of `job_fields`, in hex."""
    return digest(dict(fields))


def input_fingerprint(files: Sequence[InputFile]) -> str:
    """SHA-256 over relative path, size and footer digest of each file, in hex.

    No modification time: a copy of the input is the same input.
    """
    return digest([[file.path, file.size_bytes, file.footer_sha256] for file in files])


def differences(
    header: PlanHeader, fields: Mapping[str, JsonValue], files: Sequence[InputFile]
) -> list[str]:
    """Say in plain lines how a job and an input differ from those of a plan."""
    lines = [
        f"{key}: the output has {header.job_fields.get(key)!r}, the job says {fields.get(key)!r}"
        for key in sorted(header.job_fields.keys() | fields.keys())
        if header.job_fields.get(key) != fields.get(key)
    ]
    changes = list(_file_changes(header.files, files))
    lines += changes[:SHOWN_DIFFERENCES]
    if len(changes) > SHOWN_DIFFERENCES:
        lines.append(f"… and {len(changes) - SHOWN_DIFFERENCES} more input files")
    return lines


def _file_changes(old: Sequence[InputFile], new: Sequence[InputFile]) -> Iterator[str]:
    before = {file.path: file for file in old}
    after = {file.path: file for file in new}
    for path in sorted(before.keys() | after.keys()):
        if path not in after:
            yield f"input file {path}: gone"
        elif path not in before:
            yield f"input file {path}: new"
        elif before[path].size_bytes != after[path].size_bytes:
            yield (
                f"input file {path}: was {before[path].size_bytes} bytes, "
                f"is {after[path].size_bytes}"
            )
        elif before[path].footer_sha256 != after[path].footer_sha256:
            yield f"input file {path}: its footer differs"
