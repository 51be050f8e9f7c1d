"""What LLVM makes of a text is kept in tests: a sixth of its time went on texts that an earlier test had had compiled, as those
of one candidate on several devices, or with several inputs."""

from __future__ import annotations

from functools import lru_cache

import pytest

from tilesmith.codegen.backends import cpu

_KEPT = 512  # texts and their objects, some tens of kilobytes each
_COMPILE = cpu.compile_object


def compile_once() -> None:
    """In this process LLVM compiles equal texts once from here on. What does not compile is tried again."""
    cpu.compile_object = lru_cache(maxsize=_KEPT)(_COMPILE)


def compile_again(patch: pytest.MonkeyPatch) -> None:
    """Takes it back for a test."""
    patch.setattr(cpu, "compile_object", _COMPILE)
