"""Workers that come and go. Scheduler and futures are stand-ins: real ones are in tests/system."""

import pytest
from distributed.scheduler import KilledWorker

from headrace.flows import crew as crew_module
from headrace.flows.crew import Crew
from headrace.schemas.errors import HeadraceError, JobError


class Loading:
    """The future of a worker's `get_ready`."""

    def __init__(self):
        self.error, self.over = None, False

    def done(self):
        return self.over

    def cancelled(self):
        return False

    def exception(self):
        return self.error

    def end(self, error=None):
        self.error, self.over = error, True


class Site:
    """A scheduler's list of workers, and who asks it."""

    def __init__(self):
        self.there = {}  # address -> threads
        self.loading = {}
        self.client = self
        self.said = []

    def dies(self, address):
        """The scheduler takes a worker from its list, and then gives up its task."""
        del self.there[address]
        self.loading[address].end(KilledWorker("get_ready", None, 0))

    def infos(self):
        return {address: {"nthreads": threads} for address, threads in self.there.items()}

    def submit(self, *_, workers, **__):
        self.loading[workers[0]] = Loading()
        return self.loading[workers[0]]


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(crew_module, "LOOK_S", 0.0)
    return Site()


@pytest.fixture
def crew(site):
    return Crew(site, None, site.said.append)


def addresses(crew):
    return [member.address for member in crew.ready()]


def test_a_worker_takes_shards_when_it_has_loaded_the_model(site, crew):
    site.there = {"a": 3}
    crew.look()
    assert not crew.ready()
    assert not crew.empty()  # somebody is on the way
    site.loading["a"].end()
    crew.look()
    assert addresses(crew) == ["a"]
    assert crew.ready()[0].room == 4  # one a thread, and one that waits
    assert site.said == []


def test_a_worker_that_comes_later_loads_the_model_and_joins(site, crew):
    site.there = {"a": 1}
    crew.look()
    site.loading["a"].end()
    crew.look()
    site.there["b"] = 1
    crew.look()
    assert addresses(crew) == ["a"]
    assert site.said == ["worker b has come; it loads the model"]
    site.loading["b"].end()
    crew.look()
    assert addresses(crew) == ["a", "b"]


def test_a_late_worker_that_can_not_take_the_plan_s_road_is_left_out(site, crew):
    site.there = {"a": 1}
    crew.look()
    site.loading["a"].end()
    crew.look()
    site.there["b"] = 1
    crew.look()
    site.loading["b"].end(HeadraceError("the plan was made for a CUDA GPU"))
    crew.look()
    crew.look()
    assert addresses(crew) == ["a"]
    assert site.said[-1] == "worker b takes no shard: the plan was made for a CUDA GPU"
    assert len(site.said) == 2  # and is not asked again


def test_when_every_first_worker_refuses_the_run_says_why(site, crew):
    site.there = {"a": 1, "b": 1}
    crew.look()
    for loading in site.loading.values():
        loading.end(HeadraceError("no bf16 here"))
    with pytest.raises(HeadraceError, match="no bf16 here"):
        crew.muster()


def test_a_fault_of_the_job_itself_is_raised_whoever_finds_it(site, crew):
    site.there = {"a": 1, "b": 1}
    crew.look()
    site.loading["a"].end()
    site.loading["b"].end(JobError("the factory is not there"))
    with pytest.raises(JobError, match="factory"):
        crew.look()


def test_who_is_gone_is_told_once_with_his_shards(site, crew):
    site.there = {"a": 1, "b": 1}
    crew.look()
    for loading in site.loading.values():
        loading.end()
    crew.look()
    crew.ready()[0].shards.add("a shard")
    del site.there["a"]
    (gone,) = crew.look()
    assert (gone.address, gone.shards) == ("a", {"a shard"})
    assert crew.look() == []
    assert addresses(crew) == ["b"]


def test_who_says_that_he_is_about_to_end_gets_no_more(site, crew):
    site.there = {"a": 1}
    crew.look()
    site.loading["a"].end()
    crew.look()
    crew.leaves("a")
    crew.leaves("a")
    assert crew.ready() == []
    assert crew.empty()  # nobody is left who could take a shard
    assert site.said == ["worker a is about to end; it gets no more shards"]


def test_three_deaths_at_the_start_are_not_the_workers_fault(site, crew):
    for at in range(2):
        site.there = {f"w{at}": 1}
        crew.look()
        site.dies(f"w{at}")
        crew.look()
    site.there = {"last": 1}
    crew.look()
    site.dies("last")
    with pytest.raises(HeadraceError, match="3 died while they did, the last one last"):
        crew.look()


def test_deaths_at_the_start_of_late_workers_do_not_end_a_run(site, crew):
    site.there = {"a": 1}
    crew.look()
    site.loading["a"].end()
    crew.look()
    for at in range(5):
        site.there = {"a": 1, f"w{at}": 1}
        crew.look()
        site.dies(f"w{at}")
        crew.look()
    assert addresses(crew) == ["a"]


def test_a_worker_that_never_gets_ready_is_given_up(site, crew, monkeypatch):
    site.there = {"a": 1}
    crew.look()
    monkeypatch.setattr(crew_module, "READY_DEADLINE_S", -1.0)
    crew.look()
    assert crew.empty()
    assert "it has not loaded the model" in site.said[0]
