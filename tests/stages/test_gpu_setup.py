import os

import pytest

from headrace.stages.gpu_setup import (
    ALIGNMENT,
    GPU_ENVIRONMENT,
    OLD_ALLOCATOR_NAME,
    gpu_environment,
    pool_bytes,
    prepare_environment,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "most"),
    [
        (140 * GIB, 8 * GIB),
        (40 * GIB, 5 * GIB),
        (8 * GIB, GIB),
        (4 * GIB, GIB),
        (GIB, GIB // 2),
        (0, 0),
    ],
)
def test_the_pool_is_an_eighth_of_the_memory_within_bounds(free, most):
    assert pool_bytes(free) == (most // 4, most)


def test_sizes_are_what_rmm_takes():
    for size in pool_bytes(13 * GIB + 12_345):
        assert size % ALIGNMENT == 0


@pytest.mark.parametrize("free", [0, 1, 999, 12_345_678_901, 64 * GIB - 1])
def test_the_pool_leaves_room_and_grows(free):
    first, most = pool_bytes(free)
    assert 0 <= first <= most <= free


@pytest.fixture
def unset(monkeypatch):
    for name in (*GPU_ENVIRONMENT, OLD_ALLOCATOR_NAME):
        monkeypatch.setenv(name, "")  # so that what a test sets is taken back
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("unset")
def test_the_environment_is_asked_for_and_a_user_s_choice_stays(monkeypatch):
    monkeypatch.setenv("KVIKIO_NTHREADS", "256")
    prepare_environment()
    assert os.environ["KVIKIO_NTHREADS"] == "256"
    assert os.environ["CUDF_PER_THREAD_STREAM"] == "1"
    assert os.environ["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"


@pytest.mark.usefixtures("unset")
def test_a_choice_by_the_allocator_s_old_name_stays(monkeypatch):
    monkeypatch.setenv(OLD_ALLOCATOR_NAME, "max_split_size_mb:64")
    assert "PYTORCH_ALLOC_CONF" not in gpu_environment()
