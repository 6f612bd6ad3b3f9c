import ctypes
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.choice import COUNTS
from headrace.kernels.plain_rows import kernel, launch
from headrace.kernels.plain_rows.reference import plain_rows

# The CUDA C source itself, each row judged as its thread would.
LOOP = r"""
#include "{source}"
extern "C" void on_host(const Byte* bytes, const Index* edges, bool* plain, Index rows,
                        Index longest_word) {{
  for (Index row = 0; row < rows; ++row)
    plain[row] = is_plain(bytes, edges[row], edges[row + 1], longest_word);
}}
"""


@pytest.fixture(scope="session")
def on_host(tmp_path_factory):
    """Compile the source for the CPU, and call it as the kernel is called."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++, which compiles plain_rows.cu for the CPU here")
    folder = tmp_path_factory.mktemp("plain_rows")
    (folder / "loop.cpp").write_text(LOOP.format(source=kernel.SOURCE))
    options = ["-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    library = folder / "loop.so"
    subprocess.run([compiler, *options, "-o", library, folder / "loop.cpp"], check=True)
    function = ctypes.CDLL(str(library)).on_host
    function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_longlong] * 2

    def judge(data, edges, longest):
        judged = torch.full((edges.numel() - 1,), fill_value=True)
        limit = kernel.NO_LIMIT if longest is None else longest
        memory = (tensor.data_ptr() for tensor in (data, edges, judged))
        function(*memory, judged.numel(), limit)
        return judged

    return judge


def ragged(rows):
    edges = torch.tensor([0, *(len(row) for row in rows)], dtype=torch.int64).cumsum(0)
    return torch.tensor(list(b"".join(rows)), dtype=torch.uint8), edges


def plain(rows, longest=None):
    return plain_rows(*ragged(rows), longest).tolist()


def by_hand(row, longest):
    if re.search(rb"[^\t\n\r -~]", row):
        return False
    return longest is None or all(len(word) <= longest for word in re.split(rb"[\t\n\r ]", row))


SOME = st.lists(st.sampled_from(b"ab \t\n\r\x00\x7f\x80\xff\xc3~!"), max_size=12).map(bytes)


@given(
    rows=st.lists(SOME | st.binary(max_size=9), max_size=8),
    longest=st.none() | st.integers(1, 5),
)
def test_it_judges_as_a_regular_expression_would(rows, longest):
    assert plain(rows, longest) == [by_hand(row, longest) for row in rows]


@pytest.mark.parametrize("byte", range(256))
def test_each_byte_is_judged(byte):
    expected = byte in {9, 10, 13} or 32 <= byte <= 126
    assert plain([b"a", bytes([byte]), b""]) == [True, expected, True]


def test_a_word_may_be_as_long_as_it_is_said():
    rows = [b"aaa", b"aaaa", b"a aaa\taaa", b"aaa aaaa", b"", b"   ", b"aaaa"]
    assert plain(rows, 3) == [True, False, True, False, True, True, False]


def test_there_may_be_no_row():
    assert plain([]) == []
    assert plain([], 3) == []


def test_empty_rows_before_a_guilty_one_are_innocent():
    assert plain([b"", b"", b"\xff", b"", b"\xff"]) == [True, True, False, True, False]


@given(
    rows=st.lists(SOME | st.binary(max_size=9), max_size=8),
    longest=st.none() | st.integers(1, 5),
)
def test_the_cuda_source_judges_as_the_reference(on_host, rows, longest):
    data, edges = ragged(rows)
    assert on_host(data, edges, longest).tolist() == plain_rows(data, edges, longest).tolist()


def test_the_cuda_source_judges_each_byte_and_each_length(on_host):
    rows = [bytes([byte]) for byte in range(256)] + [b"a" * n + b" " + b"b" * 3 for n in range(9)]
    for longest in (None, 1, 4):
        assert on_host(*ragged(rows), longest).tolist() == [by_hand(row, longest) for row in rows]


def test_on_a_cpu_the_reference_runs_and_is_counted():
    before = COUNTS["plain_rows", "reference"]
    assert launch.plain_rows(*ragged([b"a", b"\xff"])).tolist() == [True, False]
    assert COUNTS["plain_rows", "reference"] == before + 1


class Meta(torch.Tensor):
    """Looks as if it were on a GPU."""

    is_cuda = True


def test_what_the_kernel_does_not_take_the_reference_does(monkeypatch):
    """On a GPU: bytes of another dtype, edges with gaps, no byte at all."""
    monkeypatch.setattr(kernel, "run", lambda *given: given)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "cupy")
    data, edges = ragged([b"ab", b"c"])
    on_gpu = data.as_subclass(Meta)
    assert launch.plain_rows(on_gpu, edges, 5)[2] == 5
    gaps = torch.stack([edges, edges], 1)[:, 0]
    for gave in ((on_gpu.int(), edges), (on_gpu, gaps), (on_gpu[:0], edges * 0)):
        assert launch.plain_rows(*gave).tolist() == [True, True]


def test_the_kernel_is_launched_on_torch_s_stream_over_every_row(monkeypatch):
    """CuPy stands in for itself here: what is called with what, and on which stream."""
    seen = []

    class Stream:
        def __init__(self, pointer):
            self.pointer = pointer

        def __enter__(self):
            seen.append(("enter", self.pointer))

        def __exit__(self, *_):
            seen.append(("exit", self.pointer))

    def get_function(name):
        return lambda *given: seen.append((name, *given))

    def compiled(code, options):
        assert code == kernel.SOURCE.read_text()
        assert options == ("--std=c++17",)
        return SimpleNamespace(get_function=get_function)

    cupy = SimpleNamespace(
        asarray=lambda tensor: tensor,
        cuda=SimpleNamespace(ExternalStream=Stream),
        RawModule=compiled,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    stream = SimpleNamespace(cuda_stream=77)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    kernel._compiled.cache_clear()
    data, edges = ragged([b"a"] * 129)
    judged = kernel.run(data, edges, None)
    kernel._compiled.cache_clear()
    assert seen == [
        ("enter", 77),
        ("plain_rows", (2,), (128,), (data, edges, judged, 129, kernel.NO_LIMIT)),
        ("exit", 77),
    ]
    assert (judged.shape, judged.dtype) == ((129,), torch.bool)
