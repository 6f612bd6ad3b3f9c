import pytest

from headrace.flows.gpu_nanny import ALLOCATOR_NAMES, gpu_environment, pool_bytes

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("free", "most"),
    [
        (140 * GIB, 8 * GIB),
        (64 * GIB, 8 * GIB),
        (40 * GIB, 5 * GIB),
        (8 * GIB, GIB),
        (4 * GIB, GIB),
        (2 * GIB, GIB),
        (GIB, 512 * MIB),
        (100 * MIB, 50 * MIB),
    ],
)
def test_the_pool_is_an_eighth_of_what_is_free_within_bounds(free, most):
    assert pool_bytes(free) == (most // 4, most)


@pytest.mark.parametrize("free", [0, 1, 999, 12_345_678_901, 64 * GIB - 1])
def test_the_pool_s_sizes_are_aligned(free):
    initial, most = pool_bytes(free)
    assert initial % 256 == most % 256 == 0
    assert 0 <= initial <= most <= free


@pytest.fixture
def no_settings(monkeypatch):
    for name in gpu_environment("GPU-1"):
        monkeypatch.delenv(name, raising=False)


def test_a_worker_sees_one_gpu_and_its_libraries_are_set(no_settings):
    assert gpu_environment("GPU-1") == {
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "RAPIDS_NO_INITIALIZE": "True",
        "CUDF_PER_THREAD_STREAM": "1",
        "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1",
        "KVIKIO_NTHREADS": "64",
    }


@pytest.mark.parametrize("name", ALLOCATOR_NAMES)
def test_the_user_s_allocator_settings_stay(no_settings, monkeypatch, name):
    monkeypatch.setenv(name, "max_split_size_mb:64")
    made = gpu_environment("GPU-1")
    assert {made[name] for name in ALLOCATOR_NAMES} == {"max_split_size_mb:64"}


def test_the_user_s_other_settings_stay_but_not_the_gpus(no_settings, monkeypatch):
    monkeypatch.setenv("KVIKIO_NTHREADS", "8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    made = gpu_environment("MIG-1")
    assert (made["KVIKIO_NTHREADS"], made["CUDA_VISIBLE_DEVICES"]) == ("8", "MIG-1")
