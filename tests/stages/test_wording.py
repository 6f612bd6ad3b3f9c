import pytest

from headrace.stages.wording import in_short, suggest


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("txt", "; did you mean 'text'?"),
        ("Text", "; did you mean 'text'?"),
        ("titel", "; did you mean 'title'?"),
        ("zzz", "; the input has: id, text, title"),
        ("", "; the input has: id, text, title"),
    ],
)
def test_the_nearest_name_or_the_list(name, end):
    assert suggest(name, ["id", "text", "title"], "the input has") == end


def test_a_long_list_is_cut():
    end = suggest("zzz", [f"c{at}" for at in range(1_500)], "the input has")
    assert end.startswith("; the input has: c0, c1, ")
    assert end.endswith(", c19, … and 1,480 more")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("one\ntwo"), "ValueError: one"),
        (ValueError("  \n one "), "ValueError: one"),
        (TimeoutError(), "TimeoutError"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_another_library_s_error_in_short(error, text):
    assert in_short(error) == text


def test_a_long_error_is_cut():
    assert len(in_short(ValueError("x" * 5_000))) < 400
