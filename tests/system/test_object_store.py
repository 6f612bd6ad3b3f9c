"""Whole runs on a real S3 server: in and out, with credentials that nobody may see."""

import json
import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3_proxy
import s3_server
from cli_support import demo_rows, tiny, write_job

from headrace.schemas import layout

pytestmark = pytest.mark.xdist_group("s3")


def names_of(s3, url):
    root = url.removeprefix("s3://")
    return [path.removeprefix(f"{root}/") for path in s3.fs.find(root) if path != root]


def read_back(s3, url):
    parts = sorted(name for name in names_of(s3, url) if name.startswith("part-"))
    tables = [
        pq.read_table(f"{url.removeprefix('s3://')}/{part}", filesystem=s3.fs) for part in parts
    ]
    return parts, pa.concat_tables(tables)


@pytest.fixture
def job(tmp_path, s3):
    """Put rows on the store in two files of a hive folder, and write a job over them."""
    source, out = s3.folder(), s3.folder()
    table = demo_rows(240, every=40)
    for day, start in (("01", 0), ("02", 120)):
        place = f"{source.removeprefix('s3://')}/day={day}/a.parquet"
        with s3.fs.open(place, "wb") as sink:
            pq.write_table(table.slice(start, 120), sink, row_group_size=50)
    file = write_job(
        tmp_path,
        table,
        model=tiny(),
        input={"path": source, "text": "text", "storage_options": s3.options},
        output={"path": out, "storage_options": s3.options},
    )
    return file, out, table


def test_a_run_from_store_to_store_goes_on_where_it_stopped(quick, s3, job):
    file, out, table = job
    run = quick.run(file)
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 240, "good": 240, "null": 0, "errors": 0}
    assert run.json["output"] == out
    parts, output = read_back(s3, out)
    assert len(parts) == run.json["shards"]["total"] == 3
    kept = output.drop_columns(["day", "embedding", "headrace_error"])
    assert kept.equals(table.select(kept.column_names))
    assert output["day"].to_pylist() == ["01"] * 120 + ["02"] * 120
    options = ("--storage-options", json.dumps(s3.options), "--json")
    assert quick("verify", out, *options).json["ok"]
    assert quick("status", out, *options).json["complete"]
    assert quick("report", out, *options).json["rows"]["in"] == 240

    s3.fs.rm_file(f"{out.removeprefix('s3://')}/{parts[1]}")
    broken = f"{out.removeprefix('s3://')}/{parts[0]}"
    s3.fs.pipe_file(broken, s3.fs.cat_file(broken)[:-9])
    assert quick("verify", out, *options).rc == 6
    again = quick.run(file)
    assert again.rc == 0, again.stderr
    assert (again.json["shards"]["committed"], again.json["shards"]["skipped"]) == (2, 1)
    assert quick("verify", out, *options).json["ok"]
    assert any(name.startswith(layout.BROKEN) for name in names_of(s3, out))

    fresh = quick.run(file, "--fresh")
    assert fresh.rc == 0, fresh.stderr
    assert fresh.json["shards"]["committed"] == 3
    _nobody_saw_the_credentials(quick, s3, out, run, again, fresh)


def _nobody_saw_the_credentials(quick, s3, out, *runs):
    hidden = (s3_server.KEY.encode(), s3_server.SECRET.encode())
    for name in names_of(s3, out):
        data = s3.fs.cat_file(f"{out.removeprefix('s3://')}/{name}")
        assert not any(secret in data for secret in hidden), name
    for path in quick.folder.rglob("*"):
        if path.is_file():
            assert not any(secret in path.read_bytes() for secret in hidden), path
    for run in runs:
        assert not any(secret in (run.stdout + run.stderr).encode() for secret in hidden)


def test_credentials_in_the_job_itself_are_seen_by_nobody_either(quick, s3, job):
    """Written out, and with rows that fail: messages, plan, report, list of errors."""
    file, out, _ = job
    literal = s3.options | {"key": s3_server.KEY, "secret": s3_server.SECRET}
    text = file.read_text().replace("${TEST_S3_KEY}", s3_server.KEY)
    file.write_text(text.replace("${TEST_S3_SECRET}", s3_server.SECRET))
    failed = quick.run(file, "--set", "model.options.raise_on=1997", "--debug")  # "of"
    assert failed.rc == 0, failed.stderr
    assert failed.json["rows"]["errors"] > 0
    options = ("--storage-options", json.dumps(literal))
    assert quick("status", out, *options).rc == 0
    file.unlink()
    _nobody_saw_the_credentials(quick, s3, out, failed)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("seed", [6, *(pytest.param(seed, marks=SLOW) for seed in range(6))])
def test_a_run_on_a_bad_store_is_as_good_as_on_any_other(quick, s3, job, seed, say):
    """One request in five is refused, broken off, or done without an answer."""
    file, out, table = job
    draw = random.Random(seed)
    kinds = ("slow down", "error", "reset", "truncated", "lost", "conflict")
    met = []

    def fault(request):
        of_parts = [one for one in proxy.seen if one.method == "PUT" and "/part-" in one.path]
        kind = draw.choice(kinds) if draw.random() < 1 / 5 else None
        if of_parts == [request]:  # one that is surely counted
            kind = "slow down"
        if kind == "conflict" and "if-none-match" not in request.headers:
            return None  # which is told of conditional writes alone
        met.append(kind)
        return kind

    with s3_proxy.running(s3.endpoint) as proxy:
        proxy.fault = fault
        file.write_text(file.read_text().replace(s3.endpoint, proxy.endpoint))
        run = quick.run(file)
    met_faults = Counter(kind for kind in met if kind)
    counted = run.json["tally"]["store_faults"]
    say(f"{len(met)} requests, faults {dict(met_faults)}, of the shards' counted {counted}")
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 240, "good": 240, "null": 0, "errors": 0}
    assert met_faults.total() > 5
    assert counted["SlowDown"] > 0
    parts, output = read_back(s3, out)
    assert len(parts) == 3
    kept = output.drop_columns(["day", "embedding", "headrace_error"])
    assert kept.equals(table.select(kept.column_names))
    options = ("--storage-options", json.dumps(s3.options), "--json")
    assert quick("verify", out, *options).json["ok"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("input.storage_options.secret=wrong", "expected the store to answer for s3://"),
        (
            "input.storage_options.key=${NO_SUCH_VARIABLE}",
            "expected the environment variable NO_SUCH_VARIABLE",
        ),
        ("output.path=s4://bucket/x", "expected a path, or a URL that fsspec opens, got s4://…"),
        ("input.path=s3://bucket/nothing-here", "there is nothing at s3://bucket/nothing-here"),
    ],
)
def test_what_the_store_does_not_take_is_said_before_anything_is_written(
    quick, s3, job, change, words
):
    file, out, _ = job
    run = quick.run(file, "--set", change)
    assert run.rc == 2
    assert words in run.stderr
    assert names_of(s3, out) == []


def test_an_output_inside_the_input_is_refused(quick, s3, job):
    file, _, _ = job
    source = next(line for line in file.read_text().splitlines() if "path: s3://" in line)
    run = quick.run(file, "--set", f"output.path={source.partition('path: ')[2]}/out")
    assert run.rc == 2
    assert "one lies in the other" in run.stderr
