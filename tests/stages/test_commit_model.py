"""The commit protocol under any order of steps and faults that Hypothesis thinks of.

The code is the real one, the disk too. Up to four attempts at one part, by two writers at a time,
are led through their operations one by one; any may be killed, refused, or done without an answer,
and an attempt that was given up may go on long after another has won.
"""

import itertools
import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from one_at_a_time import EVENTS, OPERATIONS, Writer, watched

from headrace.schemas import layout
from headrace.stages.commit import CommitRecord, commit
from headrace.stages.store import file_sha256, names_in, read_json, visible_files

PART = "part-000000.parquet"
ATTEMPTS = 4
STEPS = st.lists(st.tuples(st.integers(0, ATTEMPTS - 1), st.sampled_from(EVENTS)), max_size=60)
WHOLE = 12  # an attempt has no more operations


@pytest.fixture(scope="module", autouse=True)
def _watch():
    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, watched(getattr(os, name)))
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("commits")
    return (root / str(at) for at in itertools.count())


class Part:
    """One part's folder, and the attempts at it, each of which writes bytes of its own."""

    def __init__(self, folder, report, equal):
        self.out, self.report, self.equal = folder, report, equal
        self.out.mkdir()
        self.begun = []
        self.bytes = []
        self.seen = None

    def begin(self):
        at = len(self.begun)
        tmp = self.out / layout.TMP / f"host-{at}"
        tmp.mkdir(parents=True)
        self.bytes.append(b"rows" * 50 + (b"" if self.equal else b"%d" % at))
        file = tmp / "rows.tmp"
        file.write_bytes(self.bytes[at])
        self.begun.append(Writer(lambda: commit(file, self.out, PART, self.report, None, tmp)))

    def check(self):
        """What must hold at every moment, whoever looks."""
        assert list(visible_files(self.out)) in ([], [PART])
        target = self.out / PART
        if self.seen is None and target.exists():
            self.seen = target.read_bytes()
            assert self.seen in self.bytes, "half a file"
        if self.seen is not None:
            assert target.read_bytes() == self.seen, "a committed file has changed"
            sha256 = file_sha256(target)
            record = read_json(self.out / layout.commit_path(PART, sha256), CommitRecord)
            assert (record.sha256, record.size_bytes) == (sha256, len(self.seen))

    def check_answers(self):
        """Who was told that it won has won; who was told that it lost has lost."""
        for at, writer in enumerate(self.begun):
            assert writer.over
            if writer.dead or writer.error is not None:
                continue
            assert self.seen is not None
            won = self.bytes[at] == self.seen
            assert (writer.result is not None) is won
            if won:
                assert writer.result.sha256 == file_sha256(self.out / PART)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.booleans())
@example([(0, "go")] * WHOLE, False)
@example([(0, "go")] * 7 + [(1, "go")] * WHOLE + [(0, "go")] * WHOLE, False)  # a late writer
@example([(0, "unclear"), (1, "unclear")] * WHOLE, False)
def test_whatever_happens_a_part_is_written_once_and_whole(folders, make_report, steps, equal):
    part = Part(next(folders), make_report(), equal)
    part.begin()
    for wanted, event in steps:
        while len(part.begun) <= wanted:  # two at a time, and again when one has ended
            part.begin()
        writer = part.begun[wanted]
        if not writer.over:
            writer.step(event)
            part.check()
    for writer in part.begun:
        writer.finish()
        part.check()
    if part.seen is None:  # all were killed or refused: the next run's attempt meets nothing
        part.begin()
        part.begun[-1].finish()
        part.check()
        assert part.begun[-1].result is not None
    part.check_answers()


def test_the_model_reaches_every_end(folders, make_report):
    """Each operation of an attempt, met by each event: what the test above is able to see."""
    ends = set()
    counted = 0
    for event in EVENTS:
        for at in range(WHOLE):
            part = Part(next(folders), make_report(), equal=False)
            part.begin()
            (writer,) = part.begun
            done = 0
            while not writer.over:
                writer.step(event if done == at else "go")
                done += 1
                part.check()
            counted = max(counted, done)
            end = "dead" if writer.dead else "error" if writer.error else "won"
            ends.add((event, end, part.seen is not None))
            part.check_answers()
    assert counted < WHOLE
    assert {
        ("crash", "dead", False),
        ("crash", "dead", True),
        ("died behind", "dead", True),
        ("refused", "error", False),
        ("refused", "error", True),
        ("unclear", "error", True),
        ("go", "won", True),
    } <= ends
    assert names_in(part.out / layout.TMP) == ["host-0"]
