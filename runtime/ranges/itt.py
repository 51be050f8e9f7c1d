"""Tasks for Intel's profilers (VTune): the package `ittapi`, imported here alone."""

from __future__ import annotations

import importlib
from functools import cache

from ...common.errors import EnvironmentFailure


class IttRanges:
    """A `RangeEmitter`. Errors: EnvironmentFailure without the package."""

    def __init__(self) -> None:
        try:
            self._itt = importlib.import_module("ittapi")
        except ImportError as error:
            raise EnvironmentFailure(
                "ranges for Intel's profilers need the package ittapi",
                found=str(error),
                advice="pip install 'tilesmith[itt]', or unset TILESMITH_RANGES",
            ) from None
        self._domain = self._itt.domain("Tilesmith")
        self._handle = cache(self._itt.string_handle)

    def push(self, name: str) -> None:
        """See RangeEmitter."""
        self._itt.task_begin(self._domain, self._handle(name))

    def pop(self) -> None:
        """See RangeEmitter."""
        self._itt.task_end(self._domain)
