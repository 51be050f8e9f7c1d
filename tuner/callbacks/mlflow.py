"""Trials as metrics of an MLflow run."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from ...common.errors import MissingExtra
from .callback import Callback
from .event import TrialEvent

_UNKNOWN = re.compile(r"[^\w\-./ ]")  # signs that names of metrics may not have


class MLflowLog(Callback):
    """Logs seconds and the best so far of each task as metrics, and each best config as a tag.

    It logs into the run that is active, or else makes one of its own, and ends that. `settings` go to `mlflow.start_run`.
    Errors: MissingExtra.
    """

    def __init__(self, **settings: Any) -> None:
        try:
            self._mlflow = import_module("mlflow")
        except ImportError:
            raise MissingExtra("mlflow", "mlflow", "MLflowLog") from None
        self._settings, self._own, self._begun = settings, False, False

    def on_trial(self, event: TrialEvent) -> None:
        """Logs its figures."""
        self._begin()
        figures = {f"{_name(event)}/{name}": value for name, value in event.figures().items()}
        self._mlflow.log_metrics(figures, step=event.number)

    def on_best(self, event: TrialEvent) -> None:
        """Tags the run with the config."""
        told = " ".join(f"{name}={value}" for name, value in event.config.items())
        self._mlflow.set_tag(f"{_name(event)}/best", f"{event.seconds:.6g} s: {told}"[:5000])

    def close(self) -> None:
        """Ends a run of its own."""
        if self._own:
            self._mlflow.end_run()
            self._own = False

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            if self._mlflow.active_run() is None:
                self._mlflow.start_run(**self._settings)
                self._own = True


def _name(event: TrialEvent) -> str:
    return _UNKNOWN.sub("_", event.task)
