"""One number for debugging, and numbered dumps.

    TILESMITH_DEBUG=1   tasks, and the table of the best
                    2   a line for each trial
                    3   outlines of schedules
                    4   loop IR, after each pass that changed it, and verified there
                    5   LLVM IR
                    6   assembly

Each level shows what the lower ones show, on stderr. TILESMITH_DUMP=folder writes the texts of levels 3 to 6, whatever
TILESMITH_DEBUG says, into files 0001-outline-matmul.txt, 0002-loops-matmul.txt, ... in the order of each process.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from itertools import count
from pathlib import Path

from .errors import EnvironmentFailure
from .printable import printable
from .settings import DEBUG, DUMP


class DebugLevel(IntEnum):
    """Says what a text tells; see the head of this file."""

    TASK = 1
    TRIAL = 2
    OUTLINE = 3
    LOOPS = 4
    LLVM = 5
    ASSEMBLY = 6


_SUFFIX = {DebugLevel.LLVM: "ll", DebugLevel.ASSEMBLY: "s"}


def wanted(level: DebugLevel) -> bool:
    """Says whether `show` at this level would do anything: ask before work that only `show` needs."""
    return level <= DEBUG.value() or _folder(level) is not None


def show(level: DebugLevel, title: str, text: str | Callable[[], str]) -> None:
    """Tells `text` on stderr and dumps it, as far as the settings want it. A callable is called only if so.

    Errors: EnvironmentFailure when the dump cannot be written.
    """
    shown, folder = level <= DEBUG.value(), _folder(level)
    if not shown and folder is None:
        return
    content = printable((text if isinstance(text, str) else text()).rstrip())
    if shown:
        framed = f"---- {level.name.lower()}: {title}\n{content}\n"
        print(content if level <= DebugLevel.TRIAL else framed, file=sys.stderr, flush=True)
    if folder is not None:
        _dump(folder, level, title, content)


def _folder(level: DebugLevel) -> Path | None:
    return DUMP.value() if level > DebugLevel.TRIAL else None


def _dump(folder: Path, level: DebugLevel, title: str, text: str) -> None:
    """Writes a new file under the next number; of two processes that choose one name, one moves on."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", title).strip("-")[:80]
    ending = f"-{level.name.lower()}-{name}.{_SUFFIX.get(level, 'txt')}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in count(_last_number(folder) + 1):
            with suppress(FileExistsError), (folder / f"{number:04d}{ending}").open("x") as file:
                file.write(text + "\n")
                return
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write a dump to {folder} ({error.strerror})",
            advice=f"name a folder that can be written, or unset {DUMP.name}",
        ) from error


def _last_number(folder: Path) -> int:
    numbers = (path.name.partition("-")[0] for path in folder.iterdir())
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
