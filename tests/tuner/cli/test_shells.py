"""Completion in the shells themselves: it is installed as the README says, and TAB is pressed at a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.command_line.records import fill

_CALL = "import sys; sys.argv[0] = 'tune'; from tilesmith.tuner.cli.main import main; main()"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|[\r\x07\x08]")
_PATIENCE = 30.0  # seconds, of which a busy machine may take many for one key

# What is typed, and what stands there behind TAB.
_TYPED = {
    "tune wat": "tune watch ",
    "tune run layer_n": "tune run layer_norm ",
    "tune run matmul m=1": "tune run matmul m=1024 ",
    "tune run matmul m=4 tr": "tune run matmul m=4 transpose_",
    "tune run matmul --strategy gu": "tune run matmul --strategy guided ",
    "tune run matmul --target riscv64:": "tune run matmul --target riscv64:v",
    "tune diff 1:lo": "tune diff 1:loops ",
}


@pytest.fixture
def home(tmp_path: Path) -> tuple[dict[str, str], str]:
    """The environment of somebody whose `tune` is this one, and the begin of a task in its database."""
    task = fill(tmp_path / "known.sqlite")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tune").write_text(f"#!{sys.executable}\n{_CALL}\n")
    (folder / "tune").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    settings = {"TILESMITH_DB": str(tmp_path / "known.sqlite"), "PATH": path, "HOME": str(tmp_path), "TERM": "xterm"}
    return {**os.environ, **settings, "XDG_CONFIG_HOME": str(tmp_path / ".config"), "ZDOTDIR": str(tmp_path)}, task.key


def _install(shell: str, environment: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    command = [shell, "-c", "tune --install-completion; true"]  # who installs it is asked for the shell that it is in
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"{shell} completion installed" in done.stdout, done.stderr


class _Terminal:
    """A shell at a terminal."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._shown = ""

    def type(self, keys: str) -> None:
        self._shown = ""
        os.write(self._place, keys.encode())

    def shows(self, wanted: str) -> str:
        """What is shown since the last keys, as soon as it holds what is wanted."""
        end = time.monotonic() + _PATIENCE
        while wanted not in self._shown and time.monotonic() < end:
            if select.select([self._place], [], [], 0.2)[0]:
                self._shown += _ESCAPES.sub("", os.read(self._place, 1 << 16).decode(errors="replace"))
        return self._shown


@contextmanager
def _at_terminal(shell: str, environment: dict[str, str]) -> Iterator[_Terminal]:
    child, place = pty.fork()
    if child == 0:
        os.execvpe(shell, [shell, "-i"], environment)
    try:
        yield _Terminal(place)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(place)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes(shell: str, home: tuple[dict[str, str], str]) -> None:
    environment, task = home
    _install(shell, environment)
    with _at_terminal(shell, environment) as terminal:
        terminal.type("echo be''gun\n")
        assert "begun" in terminal.shows("begun")
        for typed, wanted in {**_TYPED, f"tune show {task[:5]}": f"tune show {task[:8]} "}.items():
            terminal.type(f"\x15{typed}\t")  # on an empty line
            assert wanted in terminal.shows(wanted)


def test_fish_offers_the_same(home: tuple[dict[str, str], str]) -> None:
    environment, task = home
    _install("fish", environment)
    asked = {**_TYPED, f"tune show {task[:5]}": f"tune show {task[:8]} "}
    script = "\n".join(f"complete -C '{typed}'; echo end" for typed in asked)
    done = subprocess.run(["fish", "-c", script], env=environment, capture_output=True, text=True, check=True)
    *answers, rest = done.stdout.split("end\n")
    assert rest == ""
    for answer, wanted in zip(answers, asked.values(), strict=True):
        words = [f"{line.partition(chr(9))[0]} " for line in answer.splitlines()]
        assert any(word.startswith(wanted.rstrip().rpartition(" ")[2]) for word in words), (wanted, answer)
