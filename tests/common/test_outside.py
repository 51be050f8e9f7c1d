"""What a signal's handler raises is told apart from what code itself raises."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tilesmith.common.kept_files import KeptFiles
from tilesmith.common.outside import from_outside, let_through


class Bell(Exception):
    """No exception of ours."""


def ring(number: int, frame: FrameType | None) -> None:
    raise Bell("from a handler")


def any_arguments(*given: Any) -> None:
    ring(*given)


class Ringing:
    def ring(self, number: int, frame: FrameType | None) -> None:
        raise Bell("from a handler")

    def __call__(self, *arguments: object) -> None:
        raise Bell("from a handler")


HANDLERS: dict[str, Callable[..., None]] = {
    "function": ring,
    "method": Ringing().ring,
    "object": Ringing(),
    "any arguments": any_arguments,
    "partial": partial(lambda _, number, frame: ring(number, frame), "first"),
}


@pytest.fixture
def usual() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def attempt() -> None:
    """Code of ours that a signal interrupts."""
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.parametrize("name", HANDLERS)
def test_what_a_handler_raises_is_let_through(name: str, usual: None) -> None:
    signal.signal(signal.SIGUSR1, HANDLERS[name])
    with pytest.raises(Bell) as met:
        attempt()
    assert from_outside(met.value) is met.value
    wrapped = ValueError("what it was taken for")
    wrapped.__cause__ = met.value
    with pytest.raises(Bell):
        let_through(wrapped)


def test_what_code_raises_is_not() -> None:
    def broken(number: int, value: object) -> None:
        raise Bell(f"{number} {value}")

    with pytest.raises(Bell) as met:
        broken(14, None)
    assert from_outside(met.value) is None
    let_through(met.value)


def test_an_alarm_that_was_dealt_with_is_over(usual: None) -> None:
    signal.signal(signal.SIGUSR1, ring)
    try:
        attempt()
    except Bell:
        with pytest.raises(ZeroDivisionError) as met:
            print(1 // 0)
    assert isinstance(met.value.__context__, Bell) and from_outside(met.value) is None


@pytest.mark.parametrize("error", [TimeoutError(), KeyboardInterrupt(), SystemExit()])
def test_what_nothing_here_raises_is_somebody_elses(error: BaseException) -> None:
    assert from_outside(error) is error


def test_files_that_are_kept_do_not_take_an_alarm_for_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*arguments: object) -> None:
        raise TimeoutError("an alarm")

    monkeypatch.setattr("tilesmith.common.kept_files.make_private_folder", late)
    with pytest.raises(TimeoutError, match="an alarm"):
        KeptFiles(tmp_path, ".kept", b"test").put("00", b"")
