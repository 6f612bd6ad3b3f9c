import pytest

from headrace.schemas.errors import JobError
from headrace.stages.import_function import import_function


@pytest.fixture(autouse=True)
def _own_module(tmp_path, monkeypatch):
    (tmp_path / "own_functions.py").write_text(
        "number = 42\n"
        "def double(x):\n"
        "    return 2 * x\n"
        "class Tool:\n"
        "    @staticmethod\n"
        "    def triple(x):\n"
        "        return 3 * x\n"
    )
    (tmp_path / "own_broken.py").write_text("raise ZeroDivisionError('while importing')\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_a_function_is_found_by_module_and_name():
    assert import_function("own_functions:double", "key")(4) == 8
    assert import_function("own_functions:Tool.triple", "key")(4) == 12


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_module_here:f", "No module named"),
        ("own_functions:nothing", "has no attribute 'nothing'"),
        ("own_functions:Tool.nothing", "has no attribute 'nothing'"),
        ("own_broken:f", "ZeroDivisionError: while importing"),
        (".own_functions:double", "TypeError"),
    ],
)
def test_what_can_not_be_imported_is_named(name, why):
    with pytest.raises(JobError) as caught:
        import_function(name, "some.key")
    message = str(caught.value)
    assert message.startswith(
        f"some.key: expected MODULE:FUNCTION that the workers can import, got {name!r}"
    )
    assert why in message
    assert "PYTHONPATH" in message


def test_what_can_not_be_called_is_named():
    with pytest.raises(
        JobError, match=r"some\.key: expected own_functions:number to be a function, got a int"
    ):
        import_function("own_functions:number", "some.key")
