"""The project's own lint: which folder may import what, and how long files and functions may be."""

import ast
import importlib.machinery
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("flows", "stages", "kernels", "schemas")
FILE_LINES, FUNCTION_LINES = 300, 50
STORAGE = {"fsspec", "s3fs", "boto3", "botocore"}
DASK = {"dask", "distributed", "dask_cuda"}
GPU = {"cupy", "triton", "cudf", "rmm"}


def source_files(root):
    """Yield (folder, file) for every source of the package."""
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.py")):
            yield folder, file
    for file in sorted((root / "src" / "headrace").glob("*.py")):
        yield "src", file


def imports_of(file):
    """Yield every imported name, wherever in the file: `from a.b import c` gives `a.b.c`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield from (f"{start}.{alias.name}" for alias in node.names)


def why_forbidden(folder, name):
    """Say why a folder must not import a name, or None."""
    top, _, below = name.partition(".")
    part = below.partition(".")[0] if top == "headrace" else None
    known = top in sys.stdlib_module_names or top in {"pydantic", "pyarrow"} or part == "schemas"
    kernels_not = top in DASK | STORAGE | {"prefect"} or part in {"stages", "flows"}
    rules = {
        "imports are absolute: a flow file is loaded under its bare name": not top,
        "a bare name may be another package's: import headrace.…": top in FOLDERS,
        "schemas import the standard library, pydantic and pyarrow": folder == "schemas"
        and not known,
        "kernels know no Dask, Prefect, storage, stage or flow": folder == "kernels"
        and kernels_not,
        "stages know no Dask, Prefect or flow": folder == "stages"
        and (top in DASK | {"prefect"} or part == "flows"),
        "flows know no GPU library": folder == "flows" and top in GPU,
    }
    return next((why for why, broken in rules.items() if broken), None)


def forbidden_imports(root):
    return [
        f"{file.relative_to(root)}: {name}: {why}"
        for folder, file in source_files(root)
        for name in imports_of(file)
        if (why := why_forbidden(folder, name)) is not None
    ]


def long_ones(root):
    found = []
    for _, file in source_files(root):
        text = file.read_text(encoding="utf-8")
        lines = len(text.splitlines())
        if lines > FILE_LINES:
            found.append(f"{file.relative_to(root)}: {lines} lines, more than {FILE_LINES}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES:
                    found.append(
                        f"{file.relative_to(root)}:{node.lineno}: {node.name} has {length} lines, "
                        f"more than {FUNCTION_LINES}"
                    )
    return found


def test_there_are_sources_to_judge():
    counts = dict.fromkeys((*FOLDERS, "src"), 0)
    for folder, _ in source_files(ROOT):
        counts[folder] += 1
    assert all(counts.values()), counts


def test_every_folder_imports_only_what_it_may():
    offenders = forbidden_imports(ROOT)
    assert not offenders, "\n".join(offenders)


def test_files_and_functions_are_short():
    offenders = long_ones(ROOT)
    assert not offenders, "\n".join(offenders)


BAD = [
    ("schemas", "import numpy"),
    ("schemas", "from headrace.stages import batch"),
    ("schemas", "import pydantic_settings"),
    ("kernels", "from distributed import Client"),
    ("kernels", "import fsspec"),
    ("kernels", "import s3fs as store"),
    ("kernels", "from headrace.stages.batch import Batch"),
    ("kernels", "import headrace.flows.api"),
    ("stages", "import prefect"),
    ("stages", "import dask.dataframe"),
    ("stages", "from headrace.flows import api"),
    ("stages", "from headrace import flows"),
    ("flows", "import cupy"),
    ("flows", "from triton import language"),
    ("flows", "def f():\n    import cudf"),
    ("flows", "from stages.batch import Batch"),
    ("stages", "import kernels"),
    ("stages", "from . import batch"),
    ("stages", "from .batch import Batch"),
    ("stages", "if TYPE_CHECKING:\n    from distributed import Client"),
]


@pytest.mark.parametrize(("folder", "line"), BAD)
def test_a_bad_import_is_found(tmp_path, folder, line):
    (tmp_path / folder / "deep").mkdir(parents=True)
    (tmp_path / folder / "deep" / "file.py").write_text(f'"""A file."""\n{line}\n')
    assert len(forbidden_imports(tmp_path)) == 1


GOOD = [
    ("schemas", "import re\nimport pyarrow as pa\nfrom pydantic import Field"),
    ("schemas", "from headrace.schemas import layout"),
    ("kernels", "import torch\nfrom headrace.schemas.job import Pooling"),
    ("stages", "import torch\nfrom headrace.kernels.pad_gather.reference import pad_gather"),
    ("flows", "import prefect\nfrom distributed import wait\nfrom headrace.stages import batch"),
]


@pytest.mark.parametrize(("folder", "lines"), GOOD)
def test_a_good_import_is_not(tmp_path, folder, lines):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "file.py").write_text(f"{lines}\n")
    assert forbidden_imports(tmp_path) == []


def test_a_long_file_and_a_long_function_are_found(tmp_path):
    (tmp_path / "stages").mkdir()
    body = "    pass\n" * FUNCTION_LINES
    (tmp_path / "stages" / "function.py").write_text(f"def short():\n    pass\ndef long():\n{body}")
    (tmp_path / "stages" / "file.py").write_text("x = 1\n" * (FILE_LINES + 1))
    found = long_ones(tmp_path)
    assert [line.partition(":")[0] for line in found] == ["stages/file.py", "stages/function.py"]
    assert "function.py:3: long has 51 lines" in found[1]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_four_folders_are_linked_into_the_package(folder):
    link = ROOT / "src" / "headrace" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("..", "..", folder)
    assert link.resolve() == ROOT / folder


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_four_folders_are_no_packages_by_themselves(folder):
    """With an `__init__.py`, `import kernels` would find this folder before the real package."""
    assert not (ROOT / folder / "__init__.py").exists()
    found = importlib.machinery.PathFinder.find_spec(folder, [str(ROOT)])
    assert found is None or found.loader is None or found.origin is None


def test_every_module_has_its_line_in_the_docs():
    page = (ROOT / "docs/structure.md").read_text()
    modules = {f"{folder}/{file.name}" for folder, file in source_files(ROOT)}
    modules = {name for name in modules if not name.startswith(("kernels/", "src/"))}
    listed = set(re.findall(r"^\| `(\w+/\w+\.py)` \|", page, re.MULTILINE))
    assert listed == modules


PROMISED_IN = re.compile(r"`(tests/[\w/]+\.py)`: ((?:`test_\w+`(?:, )?)+)")


def test_every_test_that_a_promise_names_is_there():
    page = (ROOT / "docs/guarantees.md").read_text()
    named = [
        (file, name)
        for file, names in PROMISED_IN.findall(page)
        for name in re.findall(r"test_\w+", names)
    ]
    assert len(named) == len(re.findall(r"`test_\w+`", page)) > 40  # each beside its file
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"


def test_every_test_that_the_readme_names_is_there():
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    names = set(re.findall(r"`(test_\w+)`", (ROOT / "README.md").read_text()))
    assert names
    assert {name for name in names if f"def {name}(" not in tests} == set()
