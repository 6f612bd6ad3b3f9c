"""`make fuzz`: mutated Parquet files and job files, for some minutes.

What must never happen: an exception that headrace does not raise on purpose, a crash, a hang, or a
part whose rows are not those that pyarrow reads from the same file.

A parent watches a child that works through numbered cases. `--only N` repeats one case.
"""

import argparse
import json
import random
import select
import subprocess
import sys
import time
import traceback
from collections import Counter

from fuzz_cases import Cases

CASE_DEADLINE_S = 60.0
START_DEADLINE_S = 120.0


def child(first: int, last: int | None) -> None:
    """Work through cases, one line of JSON for each, until killed."""
    cases, number = Cases(), first
    print(json.dumps({"next": number}), flush=True)
    while last is None or number <= last:
        try:
            outcome, fault = cases.run(number), None
        except Exception:  # noqa: BLE001 - finding these is what it is for
            outcome, fault = "fault", traceback.format_exc()
        number += 1
        print(json.dumps({"outcome": outcome, "fault": fault, "next": number}), flush=True)


class Watch:
    """Runs children one after the other until the time is over, and counts what they say."""

    def __init__(self, minutes: float, first: int) -> None:
        """Start at case `first`."""
        self.end, self.number = time.monotonic() + 60 * minutes, first
        self.outcomes: Counter[str] = Counter()
        self.faults: list[tuple[int, str]] = []

    def run(self) -> None:
        """Run until the time is over."""
        while time.monotonic() < self.end:
            command = [sys.executable, __file__, "--child", str(self.number)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
            try:
                self._listen(process)
            finally:
                process.kill()
                process.wait()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        deadline_s = START_DEADLINE_S
        while time.monotonic() < self.end:
            ready, _, _ = select.select([process.stdout], [], [], deadline_s)
            line = process.stdout.readline() if ready else ""
            if not line:
                what = f"ended with {process.wait()}" if ready else f"hung for {deadline_s:.0f} s"
                self._note(f"the process {what}")
                self.number += 1
                return
            said = json.loads(line)
            if "outcome" in said:
                self.outcomes[said["outcome"]] += 1
            if said.get("fault"):
                self._note(said["fault"])
            self.number, deadline_s = said["next"], CASE_DEADLINE_S

    def _note(self, fault: str) -> None:
        self.faults.append((self.number, fault))
        print(f"case {self.number}: {fault}", flush=True)


def main() -> int:
    """Fuzz, and say what came of it. Exit code 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--first", type=int, help="case to start with; else at random")
    parser.add_argument("--only", type=int, help="repeat one case, here")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None or given.only is not None:
        child(given.child if given.only is None else given.only, given.only)
        return 0
    first = random.randrange(10**9) if given.first is None else given.first  # noqa: S311
    watch = Watch(given.minutes, first)
    watch.run()
    print(f"cases {first} to {watch.number}:")
    for outcome, count in sorted(watch.outcomes.items()):
        print(f"  {count:6,} {outcome}")
    print(f"{len(watch.faults)} faults", [number for number, _ in watch.faults][:20])
    return 1 if watch.faults else 0


if __name__ == "__main__":
    sys.exit(main())
