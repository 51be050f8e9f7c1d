"""`make durations`: processor seconds of each file of tests, with those of all children. Wall clock says how busy a machine is.

A plugin of pytest: `pytest -p helpers.processor_time`. What leaves the tree of processes, as Ray's daemons do, is not counted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage  # a test puts another clock in its place

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_NAME = "processor seconds"
_SHOWN = 80
_of_files: Counter[str] = Counter()


class Meter:
    """Tells what has been used since it was asked last."""

    def __init__(self) -> None:
        self._last = _used()

    def lap(self) -> float:
        """Seconds since the last call."""
        now, last = _used(), self._last
        self._last = now
        return now - last


def _used() -> float:
    own, ended = (getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + _of_living(os.getpid())


def _of_living(pid: int) -> float:
    """Of the children of a process, and theirs."""
    total = 0.0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:15])) / _TICKS + _of_living(child)
    except OSError:  # it has ended
        pass
    return total


_meter = Meter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tells with each report what the phase has used."""
    report = yield
    report.user_properties.append((_NAME, _meter.lap()))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds up, where the reports of all workers come together."""
    for name, seconds in report.user_properties:
        if name == _NAME:
            _of_files[report.nodeid.partition("::")[0]] += float(str(seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows the files that took most."""
    terminalreporter.section(f"{_NAME}: {sum(_of_files.values()):.0f}, without collection")
    for file, seconds in _of_files.most_common(_SHOWN):
        terminalreporter.write_line(f"{seconds:7.2f} {file}")
