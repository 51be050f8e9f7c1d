"""What a process has once: threads that ask at the same time, and a maker that fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep
from typing import TypeVar

import pytest

from tilesmith.common.once import once

Value = TypeVar("Value")
THREADS = 8

TOGETHER = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from tilesmith.runtime.devices.cpu.cold import drop_address
from tilesmith.runtime.devices.cpu.jit import jit
from tilesmith.runtime.devices.cpu.repeat import repeat_loop

barrier = Barrier(8)

def ask(_):
    barrier.wait()
    return drop_address(), id(jit()), id(repeat_loop())

with ThreadPoolExecutor(8) as pool:
    print(len(set(pool.map(ask, range(8)))))
"""


def asked_together(asked: Callable[[], Value]) -> list[Value]:
    """What all threads get that ask at the same time."""
    barrier = Barrier(THREADS)

    def one(_: int) -> Value:
        barrier.wait()
        return asked()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def test_threads_that_come_at_once_get_the_same() -> None:
    made: list[object] = []

    @once
    def slowly() -> object:
        sleep(0.02)
        made.append(object())
        return made[-1]

    assert set(asked_together(slowly)) == {slowly()} == set(made)


def test_what_fails_is_tried_again() -> None:
    tried: list[int] = []

    @once
    def third() -> str:
        tried.append(1)
        if len(tried) < 3:
            raise ValueError(f"number {len(tried)}")
        return "made"

    for number in (1, 2):
        with pytest.raises(ValueError, match=f"number {number}"):
            third()
    assert [third(), third()] == ["made", "made"] and len(tried) == 3


def test_linked_code_is_there_once_for_all_threads() -> None:
    """A loser's code was freed while a thread was about to run it."""
    done = subprocess.run([sys.executable, "-c", TOGETHER], check=False, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
