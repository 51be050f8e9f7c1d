"""Memory of results: used again when nobody holds it, and never before."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tilesmith.tuner.dynamo.result_memory import ResultMemory  # noqa: E402

LARGE, SMALL = (300, 1000), (10,)


def _held_as(tensor: Any, way: str) -> Any:
    return {"tensor": tensor, "view": tensor[1:, ::2], "array": tensor.numpy()[3], "storage": tensor.untyped_storage()}[
        way
    ]


def test_memory_that_was_dropped_is_used_again() -> None:
    memory = ResultMemory([(LARGE, torch.float32), (SMALL, torch.int64), (LARGE, torch.int32)])
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
    memory = ResultMemory([(LARGE, torch.float32)])
    (first,) = memory.tensors()
    first.fill_(7)
    place, held = first.data_ptr(), _held_as(first, way)
    del first
    (second,) = memory.tensors()
    assert second.data_ptr() != place
    second.fill_(3)
    del held
    del second
    assert place in [one.data_ptr() for one in (*memory.tensors(), *memory.tensors())]


def test_no_more_is_kept_than_one_call_makes() -> None:
    memory = ResultMemory([(LARGE, torch.float32)])
    held = [memory.tensors() for _ in range(5)]
    del held
    assert [len(free) for free in memory._free.values()] == [1]
    assert not memory._lent
