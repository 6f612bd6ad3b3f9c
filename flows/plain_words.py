"""What a key of a job expects, in plain words, from what pydantic says of a bad value."""

from collections.abc import Mapping
from typing import Any

# By pydantic's name of the fault; a name in braces comes from the fault's own context.
EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than_equal": "a number of at least {ge:g}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "invalid_key": "a key that is text",
    "less_than_equal": "a number of at most {le:g}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "missing": "a value",
    "model_type": "a mapping",
    "string_too_short": "text that is not empty",
    "string_type": "text",
    "too_short": "a list that is not empty",
    "tuple_type": "a list",
}
PATTERNS = {
    r"^[\w.-]+$": "letters, digits, '_', '.' and '-' only",
    r"^[\w.]+:[\w.]+$": "MODULE:FUNCTION",
}


def expected(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """Say what was expected.

    Args:
        kind: pydantic's name of the fault.
        message: pydantic's own words, which are kept where there are no plainer ones.
        context: the fault's details: limits, allowed words, the pattern.
    """
    if kind == "string_pattern_mismatch":
        return PATTERNS.get(context["pattern"], f"text that matches {context['pattern']}")
    plain = EXPECTED.get(kind)
    if plain is None:
        return message.removeprefix("Input should be ")
    return plain.format_map(context)
