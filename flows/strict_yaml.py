"""YAML as a job needs it: a key counts once, a date is text, and what is wrong fits on one line."""

from collections.abc import Hashable
from typing import Any

import yaml

MERGE_TAG = "tag:yaml.org,2002:merge"
TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"


def read_yaml(text: str) -> object:
    """Read YAML text as plain data.

    Raises:
        ValueError: it is no YAML, a key is there twice, or it is nested too deeply. The message
            is one line that says where.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        raise ValueError(_where(error)) from error
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from error
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise ValueError(msg) from error


def _where(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark
    what = error.problem or error.context or "it can't be read"
    return what if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: {what}"


class _Loader(yaml.SafeLoader):
    """PyYAML takes the last of two equal keys and says nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE_TAG:
                continue
            if key.value in seen:
                msg = f"the key {key.value!r} is there twice; keep one of them"
                raise yaml.constructor.ConstructorError(None, None, msg, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# A job has no use for dates of their own; an unquoted one is meant as text.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != TIMESTAMP_TAG]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
