"""Lessons as a reader follows them: files are written, Python is run, commands are called, and what is shown is compared.

    ```python               run, in one namespace for the whole lesson
    ```python title="x.py"  written; so is any other language with a title
    ```console              lines after `$ ` are commands; `tune` and `tilesmith` run in this process
    ```console WORD         only where the reader of the lesson says that WORD is there
    ```text                 what the Python before it prints

What is shown has to be printed line by line, in this order; any number stands for any number, and `...` for anything.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from helpers.command_line.records import Call

_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.S | re.M)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
OURS = ("tune", "tilesmith")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `mark`: the word behind its language; `title`: the file that it is."""

    language: str
    mark: str
    title: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found = []
    for language, rest, text in _BLOCK.findall(page):
        title = re.search(r'title="([^"]+)"', rest)
        found.append(Block(language, "" if title else rest.strip(), title[1] if title else "", text))
    return found


def follow(page: Path, folder: Path, call: Call, there: Collection[str]) -> None:
    """Does what a lesson says, in a folder. `there`: marks of blocks to obey."""
    names: dict[str, object] = {"__name__": "lesson"}
    printed = ""
    for block in blocks_of(page.read_text()):
        where = f"{page.name}: {block.text.strip().splitlines()[0]}"
        if block.title:
            (folder / block.title).write_text(block.text)
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block.text, where, "exec"), names)
            printed = out.getvalue()
        elif block.language == "text":
            check(where, block.text.splitlines(), printed)
        elif block.language == "console" and (not block.mark or block.mark in there):
            for command, shown in commands(block.text):
                check(f"{where}: {command}", shown, run(command, folder, call))


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command of a block, with the lines that are shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:].partition("  #")[0].strip(), []))
        else:
            found[-1][1].append(line)
    return found


def run(command: str, folder: Path, call: Call) -> str:
    """What a command prints; AssertionError where it fails. Words of ours run in this process, the others in a shell."""
    said = ""
    for part in command.split(" && "):
        words = shlex.split(part)
        if words[0] in OURS:
            answer = call(*words[1:])
            assert answer.code == 0, (command, answer.err)
            said += answer.out
        else:
            done = subprocess.run(part, shell=True, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (command, done.stderr)
            said += done.stdout
    return said


def check(where: str, shown: list[str], printed: str) -> None:
    """Compares what a page shows with what was printed."""
    lines, at = [" ".join(line.split()) for line in printed.splitlines()], 0
    for line in (" ".join(one.split()) for one in shown):
        if line in ("", "..."):
            continue
        wanted = re.compile(pattern(line))
        at = next((n + 1 for n in range(at, len(lines)) if wanted.fullmatch(lines[n])), 0)
        assert at, f"{where}\n shows {line!r}, and this was printed:\n{printed}"


def pattern(line: str) -> str:
    """The regular expression of a line that is shown."""
    parts = (_NUMBER.split(part) for part in line.split("..."))
    return ".*".join(r"[\d.,]+(?:e[+-]?\d+)?".join(map(re.escape, part)) for part in parts).replace(r"\ ", r"\s*")
