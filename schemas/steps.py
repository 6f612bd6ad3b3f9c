"""The preprocessing steps of a job: a bare name, or one name with its setting."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from headrace.schemas.errors import did_you_mean

BareStep = Literal["strip", "lower", "collapse_whitespace", "drop_empty"]
PIECE = re.compile(r"(?P<brace>\{\{|\}\})|\{(?P<column>[^{}]+)\}|(?P<text>[^{}]+)")


class StepModel(BaseModel):
    """A frozen step, or its setting, that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)


class TruncateChars(StepModel):
    """Keep the first characters (code points) of each text."""

    truncate_chars: int = Field(ge=1)


class Replacement(StepModel):
    """What is found, and what is put there: literally, or in RE2's syntax."""

    find: str = Field(min_length=1)
    with_: str = Field(alias="with")
    regex: bool = False

    @model_validator(mode="after")
    def _is_re2(self) -> "Replacement":
        if self.regex:
            try:
                pc.replace_substring_regex(pa.scalar(""), self.find, self.with_)
            except pa.ArrowInvalid as error:
                msg = f"expected RE2's syntax in find and with, got: {error}"
                raise ValueError(msg) from error
        return self


class Replace(StepModel):
    """Replace every occurrence."""

    replace: Replacement


class FillNull(StepModel):
    """Give null rows a text."""

    fill_null: str


class Template(StepModel):
    """Make one text of several columns: `{column}`, and `{{` and `}}` for braces."""

    template: str

    @field_validator("template")
    @classmethod
    def _is_whole(cls, template: str) -> str:
        found = list(PIECE.finditer(template))
        if "".join(piece[0] for piece in found) != template:
            msg = f"expected {{COLUMN}}, and {{{{ or }}}} for a brace itself, got {template!r:.80}"
            raise ValueError(msg)
        if not any(piece["column"] for piece in found):
            msg = f"expected a column's name in braces, as in {{title}}, got {template!r:.80}"
            raise ValueError(msg)
        return template

    @property
    def pieces(self) -> tuple[tuple[Literal["column", "text"], str], ...]:
        """The columns, and the texts around them, in order."""
        return tuple(
            ("column", piece["column"])
            if piece["column"]
            else ("text", piece["text"] or piece["brace"][0])
            for piece in PIECE.finditer(self.template)
        )


class Joining(StepModel):
    """Which columns are joined, and what stands between two."""

    columns: tuple[str, ...] = Field(min_length=1)
    separator: str = " "


class Concat(StepModel):
    """Join columns into one; nulls among them are left out."""

    concat: Joining


class Python(StepModel):
    """Call a function of the user's own, MODULE:FUNCTION, on a Narwhals frame."""

    python: str = Field(pattern=r"^[\w.]+:[\w.]+$")


# A step's name -> what takes its setting.
SETTINGS: dict[str, type[StepModel]] = {
    next(iter(kind.model_fields)): kind
    for kind in (TruncateChars, Replace, FillNull, Template, Concat, Python)
}
BARE_STEPS: tuple[str, ...] = get_args(BareStep)


def _one_known_step(value: object) -> object:
    """Say plainly what is wrong with a step, before pydantic tries it as each kind."""
    if isinstance(value, StepModel):
        return value
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Mapping) else []
    if len(names) != 1:
        got = f"the keys {names}" if names else repr(value)
        msg = (
            f"expected one step, such as strip or truncate_chars: 2000, got {got:.80}. "
            "Begin each step with a dash, and indent its settings below it."
        )
        raise ValueError(msg)
    (name,) = names
    known = (*BARE_STEPS, *SETTINGS)
    if name not in known:
        near = did_you_mean(str(name), known) or f"; known here: {', '.join(known)}"
        msg = f"unknown step {name!r:.80}{near}"
        raise ValueError(msg)
    if isinstance(value, str) and name in SETTINGS:
        msg = f"expected a setting, as in {name}: …, got only the step's name"
        raise ValueError(msg)
    if not isinstance(value, str) and name in BARE_STEPS:
        msg = f"expected {name} alone: it takes no setting"
        raise ValueError(msg)
    return value


def _kind(step: str | Mapping[str, object] | StepModel) -> str:
    if isinstance(step, str):
        return "bare"
    return next(iter(type(step).model_fields if isinstance(step, StepModel) else step))


Step = Annotated[
    Annotated[BareStep, Tag("bare")]
    | Annotated[TruncateChars, Tag("truncate_chars")]
    | Annotated[Replace, Tag("replace")]
    | Annotated[FillNull, Tag("fill_null")]
    | Annotated[Template, Tag("template")]
    | Annotated[Concat, Tag("concat")]
    | Annotated[Python, Tag("python")],
    Discriminator(_kind),
    BeforeValidator(_one_known_step),
]
