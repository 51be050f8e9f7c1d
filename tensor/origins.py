"""Where stages that are made here and now come from, if their maker knows better than the stack of Python calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .program import Origin

_current: ContextVar[Origin | None] = ContextVar("origin", default=None)


@contextmanager
def originating(origin: Origin) -> Iterator[None]:
    """Gives stages that `compute`, `compute_several` and `fold` make inside this origin: that of a node of a model."""
    token = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(token)


def current_origin() -> Origin | None:
    """The origin that an importer has set, or None."""
    return _current.get()
