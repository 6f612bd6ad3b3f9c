"""The command line: a thin skin over the public functions. Exit codes: schemas/errors.py."""

import importlib
import json
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from headrace.schemas.errors import ExitCode, HeadraceError

app = typer.Typer(
    name="headrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Offline batch inference for large datasets, committed exactly once, with the bill.",
)

JobFile = Annotated[Path, typer.Argument(help="The job file (YAML).", show_default=False)]
Out = Annotated[
    str, typer.Argument(help="The output folder of a run, or its URL.", show_default=False)
]
Storage = Annotated[
    str | None,
    typer.Option("--storage-options", metavar="JSON", help="Of a URL, as in a job: ${NAME}, too."),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the job.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first rows of the input.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
TlsCa = Annotated[str | None, typer.Option("--tls-ca", metavar="FILE", help="CA (PEM).")]
TlsCert = Annotated[str | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate.")]
TlsKey = Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its key.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Without TLS beyond this machine, too.")]
INTERRUPTED = (
    "interrupted before a shard was in flight; what is committed is valid, and the same command "
    "goes on from there"
)
# Typer names only this one of its errors: an unknown option or command, a value out of range.
USAGE_ERROR: Any = typer.BadParameter.__base__
RUN_EXITS = {
    "done": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "interrupted": ExitCode.INTERRUPTED,
}


def _version(asked: bool) -> None:  # noqa: FBT001 - the option itself
    if asked:
        import headrace

        sys.stdout.write(f"headrace {headrace.__version__}\n")
        raise typer.Exit


@app.callback()
def _every_command(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    job: JobFile,
    set_: Set = None,
    limit: Limit = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Move an old output aside.")] = False,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="An existing Dask scheduler.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Workers to start here.")] = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    insecure: Insecure = False,
    no_prefect: Annotated[bool, typer.Option("--no-prefect", help="Run without Prefect.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a job, or go on where an earlier run stopped."""
    overrides = [*(set_ or ()), *([f"compute.device={device}"] if device is not None else ())]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _show(
        lambda api: api.run(
            api.load_job(job, overrides),
            limit=limit,
            fresh=fresh,
            scheduler=scheduler,
            workers=workers,
            transport=api.Transport(tls_ca, tls_cert, tls_key, insecure),
            prefect=not no_prefect,
        ),
        as_json,
        debug,
        lambda shown: RUN_EXITS[shown.value.status],
    )


@app.command()
def worker(
    address: Annotated[str, typer.Argument(help="The scheduler's, such as tcp://HOST:8786.")],
    workers: Annotated[int | None, typer.Option(min=1, help="How many; null: one a GPU.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    cloud: Annotated[str, typer.Option(help="auto, aws, gcp, azure or none.")] = "auto",
    grace_s: Annotated[
        float, typer.Option("--grace-s", min=0, help="Seconds from SIGTERM to the end.")
    ] = 25.0,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    insecure: Insecure = False,
    debug: Debug = False,
) -> None:
    """Work for a scheduler until it ends, or until this machine is taken away."""
    try:
        api = importlib.import_module("headrace.flows.api")
        transport = api.Transport(tls_ca, tls_cert, tls_key, insecure)
        api.work(address, workers, device, cloud, grace_s, transport)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - said, and shown by --debug
        if debug:
            traceback.print_exc()
        _fail(error, as_json=False)


@app.command()
def plan(
    job: JobFile, set_: Set = None, limit: Limit = None, as_json: Json = False, debug: Debug = False
) -> None:
    """Say what a run would do: shards, shapes and waste, memory, estimated cost."""
    _show(lambda api: api.plan(api.load_job(job, set_ or ()), limit=limit), as_json, debug)


@app.command()
def status(
    out: Out, storage_options: Storage = None, as_json: Json = False, debug: Debug = False
) -> None:
    """Say what is committed, from the output folder alone."""
    _show(lambda api: api.status(out, storage_options=_options(storage_options)), as_json, debug)


@app.command()
def verify(
    out: Out,
    deep: Annotated[bool, typer.Option("--deep", help="Compute a sample again, too.")] = False,
    storage_options: Storage = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Prove from the files that rows in = good + null + errors, each exactly once."""
    _show(
        lambda api: api.verify(out, deep=deep, storage_options=_options(storage_options)),
        as_json,
        debug,
        lambda shown: ExitCode.DONE if shown.value.ok else ExitCode.FAULTY,
    )


@app.command()
def report(
    out: Out, storage_options: Storage = None, as_json: Json = False, debug: Debug = False
) -> None:
    """Print the bill of a run."""
    _show(lambda api: api.report(out, storage_options=_options(storage_options)), as_json, debug)


@app.command()
def doctor(as_json: Json = False, debug: Debug = False) -> None:
    """Say what this machine has and which paths will be used."""
    _show(lambda api: api.doctor(), as_json, debug)


def _options(text: str | None) -> dict[str, Any]:
    """Read `--storage-options`. A fault never shows the text, which may hold a secret."""
    from headrace.schemas.errors import JobError

    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        msg = (
            '--storage-options: expected a JSON object, such as \'{"key": "${AWS_KEY}"}\', got '
            "something else. Mind the shell's quotes."
        )
        raise JobError(msg)
    return found


def main() -> None:
    """Run the command line."""
    try:
        code = app(standalone_mode=False)
    except USAGE_ERROR as error:
        error.show()
        if "--json" in sys.argv:
            _print_error("refused", error.format_message(), ExitCode.BAD_JOB)
        code = ExitCode.BAD_JOB
    sys.exit(code)


def _show(
    act: Callable[[Any], Any],
    as_json: bool,  # noqa: FBT001 - the option itself
    debug: bool,  # noqa: FBT001
    exit_code: Callable[[Any], ExitCode] = lambda _: ExitCode.DONE,
) -> NoReturn:
    """Act on the public functions, print the result or the error, and exit with what fits."""
    try:
        shown = act(importlib.import_module("headrace.flows.api"))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - said, and shown by --debug
        _ignore_signals()
        if debug:
            traceback.print_exc()
        _fail(error, as_json)
    _ignore_signals()
    if as_json:
        sys.stdout.write(shown.json() + "\n")
    else:
        from headrace.flows.show import console_for

        console_for().print(shown)
    sys.stdout.flush()
    raise typer.Exit(int(exit_code(shown)))


def _ignore_signals() -> None:
    """Let nobody who presses Ctrl-C once more change the exit code: the answer is known."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _fail(error: BaseException, as_json: bool) -> NoReturn:  # noqa: FBT001
    if isinstance(error, KeyboardInterrupt):
        status, text, code = "interrupted", INTERRUPTED, ExitCode.INTERRUPTED
    elif isinstance(error, HeadraceError):
        text, code = str(error), error.exit_code
        status = "failed" if code == ExitCode.UNEXPECTED else "refused"
    else:
        from headrace.stages.wording import in_short

        text = f"unexpected error: {in_short(error)}\nRun again with --debug for the traceback."
        status, code = "failed", ExitCode.UNEXPECTED
    sys.stderr.write(f"headrace: {text}\n")
    if as_json:
        _print_error(status, text, code)
    raise typer.Exit(int(code))


def _print_error(status: str, text: str, code: ExitCode) -> None:
    sys.stdout.write(json.dumps({"status": status, "error": text, "exit_code": code}) + "\n")
