import re

import pytest

from headrace.flows.strict_yaml import read_yaml

MERGED = {"base": {"x": 1, "y": 2}, "more": {"x": 1, "y": 3}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 2.5, true, null]", {"a": 1, "b": ["x", 2.5, True, None]}),
        ("date: 2026-01-02", {"date": "2026-01-02"}),
        ("when: 2026-01-02 10:00:00", {"when": "2026-01-02 10:00:00"}),
        ("base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}", MERGED),
        ("a: {x: 1}\nb: {x: 1}", {"a": {"x": 1}, "b": {"x": 1}}),
        ("", None),
    ],
)
def test_yaml_is_read(text, value):
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' is there twice"),
        ("x:\n  - {k: 1, k: 1}", "line 2, column 12: the key 'k' is there twice"),
        ("a: [1", "line 1, column 6: "),
        ("a: b: c", "line 1, column 5: mapping values are not allowed here"),
        ("a:\n\tb: 1", "line 2, column 1: found character '\\t'"),
        ("a: *nobody", "line 1, column 4: found undefined alias 'nobody'"),
        ("? [1, 2]\n: x", "line 1, column 3: found unhashable key"),
        ("a: !!python/name:os.system", "line 1, column 4: could not determine a constructor"),
        ("a: \x00", "unacceptable character #x0000"),
        ("[" * 20_000, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_said_on_one_line_with_its_place(text, said):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        read_yaml(text)
    assert "\n" not in str(caught.value)
