from headrace.stages.cores import own_cores


def test_workers_of_a_host_share_its_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    assert [own_cores(workers) for workers in (1, 2, 3, 16)] == [8, 4, 2, 1]
