"""The Prefect flow: the run's recipe with one task run per wave, so that it can be watched there.

The committed outputs are the truth. No retries, no stored results and no cache: Prefect shows.
"""

import os
from typing import Any

from headrace.flows.run import Invocation, find_work, finished, run_shards
from headrace.flows.submit import Wave
from headrace.schemas.errors import HeadraceError
from headrace.schemas.report import RunReport

WAVE_THREADS = 64


def quiet_prefect() -> bool:
    """Switch off Prefect's telemetry for this process. Returns whether a server must be started.

    Must be called before Prefect is first imported. A user's own settings win.
    """
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    from prefect.settings import PREFECT_API_URL

    return not PREFECT_API_URL.value()


def run_with_prefect(call: Invocation) -> RunReport:
    """Run a job as a Prefect flow run, against the server of the user's profile or a temporary one.

    Raises:
        HeadraceError: as `headrace.flows.run`.
    """
    surveyed, plan = find_work(call)
    report = finished(call, plan)
    if report is not None:
        return report
    if quiet_prefect():
        call.progress.say(
            "starting Prefect's temporary server, which takes 7 to 20 s "
            "(set PREFECT_API_URL to use one that runs, or --no-prefect to do without)"
        )
    return _flow_run(call, lambda started: run_shards(call, surveyed, plan, started))


def _flow_run(call: Invocation, recipe: Any) -> RunReport:  # noqa: ANN401
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE
    from prefect.states import Completed, Failed
    from prefect.task_runners import ThreadPoolTaskRunner

    outcome: list[RunReport | HeadraceError] = []
    waves: dict[int, Wave] = {}

    @task(
        name="wave",
        task_run_name="wave {index}",
        retries=0,
        persist_result=False,
        cache_policy=NO_CACHE,
    )
    def wave(index: int, shards: int) -> Any:  # noqa: ANN401
        """Wait for a wave's shards. The submission sets `done`, whatever happens."""
        waves[index].done.wait()
        failed = waves[index].failed
        if failed or waves[index].left:
            return Failed(message=f"failed: {failed}, not run: {waves[index].left}")
        return Completed(message=f"{shards} shards committed")

    runner: Any = ThreadPoolTaskRunner(max_workers=WAVE_THREADS)

    @flow(
        name="headrace",
        flow_run_name=call.job.name,
        retries=0,
        persist_result=False,
        validate_parameters=False,
        task_runner=runner,
    )
    def headrace(job: str, output: str) -> Any:  # noqa: ANN401, ARG001 - shown as its parameters
        futures = []

        def started(one: Wave) -> None:
            waves[one.index] = one
            futures.append(wave.submit(one.index, one.shards))

        try:
            report = recipe(started)
        except HeadraceError as error:
            outcome.append(error)
            return Failed(message=str(error))
        finally:
            for future in futures:
                future.wait()
        outcome.append(report)
        if report.status != "done":
            return Failed(message=f"{report.status}: {report.reason}")
        return Completed(message=f"{report.rows.in_} rows")

    state: Any = headrace(call.job.name, str(call.out), return_state=True)
    if not outcome:
        state.result(raise_on_failure=True)  # an error that is not ours: raise it as it came
    if isinstance(outcome[0], HeadraceError):
        raise outcome[0]
    return outcome[0]
