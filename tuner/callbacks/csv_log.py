"""Trials as lines of a CSV file, which may be read while the search goes on."""

from __future__ import annotations

import csv
import json
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

from .callback import Callback
from .event import TrialEvent

COLUMNS = ("task", "trial", "elapsed", "status", "seconds", "best_seconds", "sketch", "config", "message")


class CsvLog(Callback):
    """Writes a line for each trial; what is in the file stays, so that a continued search goes on there."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file: TextIO | None = None
        self._writer: Any = None

    def on_trial(self, event: TrialEvent) -> None:
        """Adds a line."""
        if self._file is None:
            self._file = self._path.open("a", encoding="utf-8", newline="")
            self._writer = csv.writer(self._file)
            if self._path.stat().st_size == 0:
                self._writer.writerow(COLUMNS)
        failure = event.measurement.failure
        message = failure.message.partition("\n")[0] if failure else ""
        seconds, best = (value if isfinite(value) else "" for value in (event.seconds, event.best))
        self._writer.writerow(
            (event.task, event.number, f"{event.elapsed:.3f}", event.measurement.status, seconds, best, event.sketch[:12],
             json.dumps(dict(event.config), sort_keys=True), message)
        )  # fmt: skip
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
