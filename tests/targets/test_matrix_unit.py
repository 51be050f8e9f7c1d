"""Permission for the tile registers of the matrix unit: asked of the kernel, never a failure."""

from __future__ import annotations

import ctypes
import platform
import sys

import pytest

from tilesmith.targets.host import host_features
from tilesmith.targets.matrix_unit import allow_matrix_unit


def test_a_process_with_a_matrix_unit_is_allowed_to_use_it() -> None:
    linux = sys.platform == "linux" and platform.machine() == "x86_64"
    assert allow_matrix_unit() is (linux and "amx-tile" in host_features())


def test_another_processor_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: pytest.fail("the kernel was asked"))
    assert allow_matrix_unit.__wrapped__() is False


def test_a_system_without_the_call_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert allow_matrix_unit.__wrapped__() is False
