"""Memory of results: used again when nobody holds it, and never before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tilesmith.tuner.dynamo.result_memory import ResultMemory, ResultPool  # noqa: E402

LARGE, SMALL = (300, 1000), (10,)


def _held_as(tensor: Any, way: str) -> Any:
    return {"tensor": tensor, "view": tensor[1:, ::2], "array": tensor.numpy()[3], "storage": tensor.untyped_storage()}[
        way
    ]


def test_memory_that_was_dropped_is_used_again() -> None:
    memory = ResultMemory([(LARGE, torch.float32), (SMALL, torch.int64), (LARGE, torch.int32)], ResultPool())
    first = memory.tensors()
    assert [(tuple(one.shape), one.dtype) for one in first] == [
        (LARGE, torch.float32), (SMALL, torch.int64), (LARGE, torch.int32),
    ]  # fmt: skip
    places = {first[0].data_ptr(), first[2].data_ptr()}
    assert len(places) == 2
    del first
    again = memory.tensors()
    assert {again[0].data_ptr(), again[2].data_ptr()} == places


@pytest.mark.parametrize("way", ["tensor", "view", "array", "storage"])
def test_memory_that_is_held_stays_as_it_is(way: str) -> None:
    memory = ResultMemory([(LARGE, torch.float32)], ResultPool())
    (first,) = memory.tensors()
    first.fill_(7)
    place, held = first.data_ptr(), _held_as(first, way)
    del first
    (second,) = memory.tensors()
    assert second.data_ptr() != place
    second.fill_(3)
    del second  # so that the system gets this one back, of two that nobody holds
    del held
    assert memory.tensors()[0].data_ptr() == place


def test_no_more_is_kept_than_one_call_makes() -> None:
    pool = ResultPool()
    memory = ResultMemory([(LARGE, torch.float32)], pool)
    held = [memory.tensors() for _ in range(5)]
    assert not pool.free_bytes
    del held
    assert pool.free_bytes == 4 * 300 * 1000


def test_no_more_is_kept_than_was_held_at_once() -> None:
    pool = ResultPool()
    parts = [ResultMemory([((rows, 1000), torch.float32)], pool) for rows in (300, 200, 100, 50)]
    for part in parts:
        part.tensors()
        assert pool.free_bytes <= 4 * 300 * 1000
    assert pool.free_bytes == 4 * 150 * 1000  # what came back last: the first ones would not have fitted beside it
    del parts, part
    held = ResultMemory([(SMALL, torch.float32), ((70, 1000), torch.float32)], pool).tensors()
    del held
    assert not pool.free_bytes  # no part is left


def test_memory_comes_back_in_any_thread() -> None:
    pool = ResultPool()
    memory = ResultMemory([(LARGE, torch.float32), ((200, 1000), torch.float32)], pool)

    def step(number: int) -> bool:
        first, second = memory.tensors()
        first.fill_(number)
        second.fill_(-number)
        return bool((first == number).all()) and bool((second == -number).all())

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(step, range(200)))
    assert pool.free_bytes <= memory.bytes and not pool._lent
    assert pool._lent_bytes == 0
