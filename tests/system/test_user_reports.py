"""What users of such systems have reported, as named tests. Where another file has the test:

a null-only file, empty shards, a remainder of one, hive folders retyped: test_datasets.py;
null, empty and spaces, bad UTF-8, a tokenizer with padding of its own: test_dirty_text.py;
types that change on the way: test_types.py; NaN stored, one bad row: test_failures.py.
"""

import json
import os
import pty
import re
import subprocess

import numpy as np
import pyarrow as pa
import pytest
from cli_support import HEADRACE, MINILM, demo_rows, read_output, write_job
from tokenizers import Tokenizer

from headrace.stages.model_folder import find_model

ROWS = 300
MEMORY_TOKENS = 300  # less than a batch, and more than the longest row


@pytest.fixture(scope="module")
def echoed(tmp_path_factory, quick_in):
    """A run over rows of shuffled lengths, one of them giant, watched on a terminal."""
    folder = tmp_path_factory.mktemp("echo")
    lengths = np.random.default_rng(0).permutation(ROWS) % 97
    texts = [f"{at * 7 % 90} " + "word " * length for at, length in enumerate(lengths)]
    texts[123] = "5 " + "giant " * 5_000
    numbers = pa.array(range(ROWS))
    table = pa.table({"n": numbers, "t": numbers.cast(pa.string()), "text": texts})
    options = {"memory_tokens": MEMORY_TOKENS}
    model = {"factory": "report_models:build_echo", "options": options, "normalize": False}
    job = write_job(folder, table, model=model, price={"per_hour": 3.6})
    command = [HEADRACE, "run", str(job), "--no-prefect", "--json"]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command, cwd=folder, env=quick_in(folder).env, stdout=subprocess.PIPE, stderr=slave
    )
    os.close(slave)
    shown = b""
    try:
        while chunk := os.read(master, 65_536):
            shown += chunk
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    os.close(master)
    answer = json.loads(process.stdout.read())
    process.stdout.close()
    assert process.wait() == 0, shown
    return folder, table, answer, shown.decode()


def tallies(folder):
    files = sorted((folder / "out/_headrace/reports").iterdir())
    return [json.loads(file.read_text())["tally"] for file in files]


def size(shape):
    rows, length = shape.split(" x ")
    return int(rows) * int(length)


def test_results_stay_with_their_rows(echoed):
    folder, table, _, _ = echoed
    out = read_output(folder / "out")
    assert out.select(table.column_names).equals(table)
    tokenizer = Tokenizer.from_file(str(find_model(MINILM) / "tokenizer.json"))
    first = [tokenizer.encode(text).ids[1] for text in table["text"].to_pylist()]
    assert len(set(first)) > 80
    assert [row[0] for row in out["embedding"].to_pylist()] == first


def test_one_long_row_costs_smaller_batches_and_nobody_s_result(echoed):
    folder, _, answer, _ = echoed
    assert answer["rows"] == {"in": ROWS, "good": ROWS, "null": 0, "errors": 0}
    assert sum(tally["oom_halvings"] for tally in tallies(folder)) > 0
    sizes = [size(shape) for tally in tallies(folder) for shape in tally["shapes"]]
    assert max(sizes) > MEMORY_TOKENS  # what was tried and halved
    assert min(sizes) < MEMORY_TOKENS


def test_a_run_uses_few_shapes(echoed):
    folder, _, _, _ = echoed
    grid = json.loads((folder / "out/_headrace/plan.json").read_text())["grid"]
    planned = {shape["length"] for shape in grid["shapes"]}
    used = {int(shape.split(" x ")[1]) for tally in tallies(folder) for shape in tally["shapes"]}
    assert used <= planned
    assert len(planned) <= 32
    assert max(planned) == 256  # the model's own length cuts the giant


def test_the_progress_that_is_shown_is_what_was_committed(echoed):
    folder, _, answer, shown = echoed
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    states = re.findall(r"([\d,]+) of ([\d,]+) rows, [\d,]+ rows/s", plain)
    assert {total for _, total in states} == {"300"}
    counts = [int(rows) for rows, _ in states]
    assert counts == sorted(counts)
    assert counts[-1] == answer["rows"]["in"]
    assert set(counts) <= {0, 100, 200, 300}  # shards of 100 rows: nothing is counted early
    cost = float(re.findall(r"([\d.]+) USD so far", plain)[-1])
    assert cost == pytest.approx(sum(tally["cost"] for tally in tallies(folder)), abs=1e-4)


def test_results_do_not_depend_on_the_batch_s_size(tmp_path, quick, classifier):
    model = {"path": str(classifier), "task": "classify", "top_k": 5}
    job = write_job(tmp_path, demo_rows(60, every=60), model=model)
    scores = []
    for tokens in (64, 4_096):
        out = f"output.path={tmp_path}/{tokens}"
        assert quick.run(job, "--set", f"compute.batch_tokens={tokens}", "--set", out).rc == 0
        top = read_output(tmp_path / str(tokens))["top"].to_pylist()
        scores.append([{entry["label"]: entry["score"] for entry in row} for row in top])
    small, large = ([[row[k] for k in sorted(row)] for row in each] for each in scores)
    np.testing.assert_allclose(small, large, atol=1e-5)
