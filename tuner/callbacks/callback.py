"""Callbacks of a search, and the list that calls them: what one raises is told once, and costs the search nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

from ...common.errors import ArgumentError
from .event import TrialEvent

Heard = Callable[[TrialEvent], object]


class Callback:
    """Hears of trials. Override what is wanted; each is called in the thread of the search, which waits for it."""

    def on_trial(self, event: TrialEvent) -> None:
        """A trial has ended, well or not."""

    def on_best(self, event: TrialEvent) -> None:
        """A trial is faster than all before it on this machine; `on_trial` was called."""

    def close(self) -> None:
        """The search is over, however it ended."""


class OfFunctions(Callback):
    """A callback made of functions."""

    def __init__(self, on_trial: Heard | None = None, on_best: Heard | None = None) -> None:
        self._trial, self._best = on_trial, on_best

    def on_trial(self, event: TrialEvent) -> None:
        """See `Callback.on_trial`."""
        if self._trial is not None:
            self._trial(event)

    def on_best(self, event: TrialEvent) -> None:
        """See `Callback.on_best`."""
        if self._best is not None:
            self._best(event)


class Callbacks:
    """Calls all of them in turn. One that raises is named in a warning, and not called again."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self._live = list(callbacks)

    @staticmethod
    def of(callbacks: Iterable[Callback], on_trial: Heard | None, on_best: Heard | None) -> Callbacks:
        """All that a person gave. Errors: ArgumentError for what is no callback."""
        given = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
        for one in given:
            if not isinstance(one, Callback):
                raise ArgumentError(
                    "no callback", expected="objects of tilesmith.callbacks.Callback", found=type(one).__name__,
                    advice="functions are given as on_trial= and on_best=",
                )  # fmt: skip
        for name, function in (("on_trial", on_trial), ("on_best", on_best)):
            if function is not None and not callable(function):
                raise ArgumentError(f"{name} is no function", found=repr(function))
        if on_trial is not None or on_best is not None:
            given.append(OfFunctions(on_trial, on_best))
        return Callbacks(given)

    def __bool__(self) -> bool:
        return bool(self._live)

    def trial(self, event: TrialEvent) -> None:
        """Tells all of a trial."""
        for callback in tuple(self._live):
            if self._guarded(callback, callback.on_trial, event) and event.is_best:
                self._guarded(callback, callback.on_best, event)

    def close(self) -> None:
        """Ends all."""
        for callback in tuple(self._live):
            try:
                callback.close()
            except Exception as error:
                _tell(callback, error)
        self._live = []

    def _guarded(self, callback: Callback, method: Heard, event: TrialEvent) -> bool:
        try:
            method(event)
        except Exception as error:  # whatever a person's code does
            self._live.remove(callback)
            _tell(callback, error)
            return False
        return True


def _tell(callback: Callback, error: Exception) -> None:
    name = type(callback).__name__
    warnings.warn(
        f"the callback {name} raised {type(error).__name__}: {error}; it is not called any more, and the search goes on",
        RuntimeWarning, stacklevel=3,
    )  # fmt: skip
