"""The Prefect flow: the run's recipe with one task run per wave, so that it can be watched there.

The committed outputs are the truth. No retries, no stored results and no cache: Prefect shows.
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from headrace.flows.progress import Progress
from headrace.flows.run import Invocation, WaveStarted, find_work, finished, run_shards
from headrace.flows.shield import shielded
from headrace.flows.waves import Wave
from headrace.schemas.errors import HeadraceError
from headrace.schemas.report import RunReport
from headrace.stages.wording import in_short

WAVE_THREADS = 64


def quiet_prefect() -> bool:
    """Switch off Prefect's telemetry for this process. Returns whether a server must be started.

    Must be called before Prefect is first imported. A user's own settings win.
    """
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    # On a busy machine Prefect's own 20 s are not enough for its server.
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
    # What goes wrong is raised and said once; Prefect would log it with its traceback as well.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
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
        _start_server()
    return _flow_run(call, lambda started: run_shards(call, surveyed, plan, started))


def _start_server() -> None:
    """Start Prefect's temporary server, deaf to Ctrl-C: it must see the end of a drained run.

    In a thread, so that Ctrl-C can stop the waiting. Prefect stops the server when we exit.

    Raises:
        HeadraceError: it did not start.
    """
    from prefect.server.api.server import SubprocessASGIServer

    faults: list[Exception] = []

    def start() -> None:
        try:
            with shielded((signal.SIGINT,)):
                SubprocessASGIServer().start()
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that waits
            faults.append(error)

    thread = threading.Thread(target=start, name="headrace-prefect-server", daemon=True)
    thread.start()
    thread.join()
    if faults:
        msg = (
            f"expected Prefect's temporary server to start, got {in_short(faults[0])}. "
            "Set PREFECT_API_URL to one that runs, or use --no-prefect."
        )
        raise HeadraceError(msg) from faults[0]


def _revive_server() -> None:
    """Start our temporary server again if a SIGTERM to the whole process group ended it.

    Prefect would wait a minute for a dead one, and then not know how the run ended.
    """
    from prefect.server.api.server import SubprocessASGIServer

    server = SubprocessASGIServer()
    if server.server_process is not None and server.server_process.poll() is not None:
        server.running = False
        _start_server()


def _flow_run(call: Invocation, recipe: Callable[[WaveStarted], RunReport]) -> RunReport:
    from prefect import flow
    from prefect.states import Completed, Failed
    from prefect.task_runners import ThreadPoolTaskRunner

    outcome: list[RunReport | BaseException] = []
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
        waves = _Waves()
        try:
            report = recipe(waves.started)
        except BaseException as error:  # noqa: BLE001 - raised outside: Prefect would log it all
            outcome.append(error)
            ours = isinstance(error, HeadraceError)
            return Failed(message=str(error) if ours else type(error).__name__)
        finally:
            _revive_server()
            waves.join()
        outcome.append(report)
        if report.status != "done":
            return Failed(message=f"{report.status}: {report.reason}")
        return Completed(message=f"{report.rows.in_} rows")

    try:
        state: Any = headrace(call.job.name, str(call.out), return_state=True)
        if not outcome:
            state.result(raise_on_failure=True)
    except Exception as error:  # noqa: BLE001 - Prefect's own, which have no base
        _refuse_prefect(error, call.progress, has_run=bool(outcome))
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _refuse_prefect(error: Exception, progress: Progress, *, has_run: bool) -> None:
    """Say that Prefect failed. A run that was over by then stands: Prefect only shows it."""
    what = in_short(error)
    if has_run:
        progress.say(f"Prefect could not be told how the run ended ({what})")
        return
    msg = (
        f"expected Prefect to take the run, got {what}. Look after the server that "
        "PREFECT_API_URL or your profile names, or use --no-prefect."
    )
    raise HeadraceError(msg) from error


class _Waves:
    """One Prefect task run for each wave, from its first shard to its last."""

    def __init__(self) -> None:
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        self._waves: dict[int, Wave] = {}
        self._futures: list[Any] = []
        settings: Any = task(
            name="wave",
            task_run_name="wave {index}",
            retries=0,
            persist_result=False,
            cache_policy=NO_CACHE,
        )
        self._task = settings(self._wait)

    def started(self, wave: Wave) -> None:
        """Show a wave as running."""
        self._waves[wave.index] = wave
        self._futures.append(self._task.submit(wave.index, wave.shards))

    def join(self) -> None:
        """Let every task run end; the submission has set `done` on every wave by now."""
        for future in self._futures:
            future.wait()

    def _wait(self, index: int, shards: int) -> Any:  # noqa: ANN401 - a Prefect state
        from prefect.states import Completed, Failed

        wave = self._waves[index]
        wave.done.wait()
        if wave.failed or wave.left:
            return Failed(message=f"failed: {wave.failed}, not run: {wave.left}")
        return Completed(message=f"{shards} shards committed")
