"""The lessons of docs/tutorial: a new user does what they say, and sees what they show.

Trials are answered at once, for children take seconds to start (the code of the README and the examples make real ones). The
slow test makes all of them, with the budgets of the pages.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers.command_line.records import Call, caller
from helpers.lessons import blocks_of, check, commands, follow
from helpers.source import ROOT
from tilesmith.measure.result import AtEnd, Job, Measurement, Status
from tilesmith.tuner.report import report as report_module

LESSONS = sorted((ROOT / "docs" / "tutorial").glob("[0-9]*.md"))
NEEDS = {"02-pytorch-model.md": "torch"}  # -> what a lesson cannot do without


class InstantRunner(AtEnd):
    """Answers each trial at once, with a time that depends on its config alone (implements `Runner`)."""

    name, capacity = "local", 4

    def __init__(self, *_: object, **__: object) -> None:
        self._ended: list[tuple[int, Measurement]] = []

    def submit(self, job: Job) -> None:
        self._ended.append((job.number, self._measured(job)))

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        ended, self._ended = self._ended, []
        return ended

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        return [(job.number, self._measured(job)) for job in jobs]

    def close(self) -> None:
        pass

    @staticmethod
    def _measured(job: Job) -> Measurement:
        seconds = 1e-3 + 1e-6 * sum(value for value in job.config.values() if isinstance(value, int))
        return Measurement(Status.OK, (seconds, 1.1 * seconds, 1.2 * seconds), builder="", device="none")


@pytest.fixture
def lesson_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, kept_ceilings: Path
) -> Call:
    """The command line in the folder of a lesson, as a new user has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "tuning.sqlite"))
    monkeypatch.setenv("TILESMITH_CACHE", str(kept_ceilings))
    monkeypatch.delitem(sys.modules, "tiles", raising=False)
    return caller(monkeypatch, capsys)


def followed(page: Path, folder: Path, call: Call, *there: str) -> None:
    needed = NEEDS.get(page.name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    if "cc main.c" in page.read_text() and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    follow(page, folder, call, there)


@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.stem)
def test_a_lesson_is_as_it_says(page: Path, lesson_call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = tmp_path / page.name
    text = re.sub(r"(trials=|--trials )\d+", r"\g<1>3", page.read_text())
    shorter.write_text(re.sub(r"--time \d+s", "--trials 2", text))
    monkeypatch.setattr("tilesmith.measure.local.LocalRunner", InstantRunner)
    monkeypatch.setattr(report_module, "plotly_script", lambda: "")
    followed(shorter, tmp_path, lesson_call, "plotly")


@pytest.mark.slow
@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.stem)
def test_a_lesson_is_as_it_says_with_all_of_its_trials(page: Path, lesson_call: Call, tmp_path: Path) -> None:
    there = [mark for mark, package in (("plotly", "plotly"), ("slow", "ray")) if importlib.util.find_spec(package)]
    followed(page, tmp_path, lesson_call, *there)


def test_there_are_ten_lessons_and_each_leads_to_the_next() -> None:
    assert [page.name[:2] for page in LESSONS] == [f"{n:02}" for n in range(1, 11)]
    index = (ROOT / "docs" / "tutorial" / "index.md").read_text()
    for page, following in zip(LESSONS, [*LESSONS[1:], None], strict=True):
        assert page.name in index and blocks_of(page.read_text())
        assert following is None or f"]({following.name})" in page.read_text().splitlines()[-1]


def test_what_is_shown_is_compared() -> None:
    check("page", ["took 1.5 ms", "...", "record ..."], "took 20 ms\nmore\nrecord 3, and on\n")
    for shown, printed in (["took 1.5 us", "took 2 ms"], ["b", "a"], ["record ...", "no record 3"]):
        with pytest.raises(AssertionError, match="shows"):
            check("page", [shown], printed)
    with pytest.raises(AssertionError, match="shows"):
        check("page", ["second", "first"], "first\nsecond\n")
    assert commands("$ a b   # why\none\n$ c\n") == [("a b", ["one"]), ("c", [])]
