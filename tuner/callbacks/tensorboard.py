"""Trials as scalars of TensorBoard."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from ...common.errors import MissingExtra
from .callback import Callback
from .event import TrialEvent

_WRITERS = ("tensorboardX", "torch.utils.tensorboard")


class TensorBoardLog(Callback):
    """Writes seconds and the best so far of each task into a folder that TensorBoard shows, and each best config as text.

    Errors: MissingExtra where neither tensorboardX nor torch with tensorboard is there.
    """

    def __init__(self, folder: str | Path) -> None:
        self._writer = _writer_class()(str(folder))

    def on_trial(self, event: TrialEvent) -> None:
        """Adds points to the curves of its task."""
        for name, value in event.figures().items():
            self._writer.add_scalar(f"{event.task}/{name}", value, event.number)

    def on_best(self, event: TrialEvent) -> None:
        """Adds the config as text."""
        told = ", ".join(f"{name}={value}" for name, value in event.config.items())
        self._writer.add_text(f"{event.task}/best", f"{event.seconds:.6g} s: {told}", event.number)

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()


def _writer_class() -> Any:
    for name in _WRITERS:
        try:
            return import_module(name).SummaryWriter
        except ImportError:
            continue
    raise MissingExtra(_WRITERS[0], "tensorboard", "TensorBoardLog")
