"""Ranges for NVIDIA's profilers (Nsight Systems): the package `nvtx`, imported here alone."""

from __future__ import annotations

import importlib

from ...common.errors import EnvironmentFailure

DOMAIN = "Tilesmith"


class NvtxRanges:
    """A `RangeEmitter`. Errors: EnvironmentFailure without the package."""

    def __init__(self) -> None:
        try:
            self._nvtx = importlib.import_module("nvtx")
        except ImportError as error:
            raise EnvironmentFailure(
                "ranges for NVIDIA's profilers need the package nvtx",
                found=str(error),
                advice="pip install 'tilesmith[nvtx]', or unset TILESMITH_RANGES",
            ) from None

    def push(self, name: str) -> None:
        """See RangeEmitter."""
        self._nvtx.push_range(name, domain=DOMAIN)

    def pop(self) -> None:
        """See RangeEmitter."""
        self._nvtx.pop_range(domain=DOMAIN)
