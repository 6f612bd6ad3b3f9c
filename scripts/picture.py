"""Draw docs/demo.svg: the bill of an output folder, as the terminal shows it.

python scripts/picture.py out/demo docs/demo.svg
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console

import headrace as hr

WIDTH = 86


def main() -> None:
    """Draw the report of the folder that is the first argument into the second."""
    out, target = sys.argv[1:]
    shown = hr.report(out)
    # Relative, as a user calls it: the picture names no folder of the machine that drew it.
    shown = type(shown)(shown.value.model_copy(update={"output": out}), shown.view)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(shown)
    svg = console.export_svg(title=f"headrace report {out}")
    # Without the web font: a picture in a repository loads nothing.
    Path(target).write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    main()
