"""Graphs whose sizes torch leaves open: compiled for each of the sizes that calls bring, up to a limit.

torch opens sizes when a function is called with other ones, or a second module: to torch all calls of modules are one function.
Kernels have the sizes that they were compiled for, so the graph is specialised here, and what it was made for is looked up by
the sizes of the operands. After MOST of them further ones stay in torch; so does a graph that reads a number out of a tensor,
which is how torch hands on a float that changes from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from importlib import import_module
from typing import Any

from ...common.debug import DebugLevel, show
from ...common.forks import lock
from ...graph.importers.torch_export import torch_module

MOST = 16  # sizes that a graph is compiled for


def are_open(inputs: Sequence[Any]) -> bool:
    """Says whether torch has left sizes of a graph's inputs open."""
    torch = torch_module()
    return any(
        isinstance(one, torch.SymInt) or any(not isinstance(size, int) for size in getattr(one, "shape", ()))
        for one in inputs
    )


class BySizes:
    """A graph of open sizes as a function of its inputs.

    Args:
        module: the graph, which torch can run with any sizes.
        specialised: returns what runs in its place for inputs of these sizes.
    """

    def __init__(self, module: Any, specialised: Callable[[Sequence[Any]], Any]) -> None:
        self._module, self._specialised = module, specialised
        self._made: dict[Hashable, Any] = {}
        self._lock = lock()

    def __call__(self, *inputs: Any) -> Any:
        """Computes the graph of the inputs."""
        key = tuple(map(_sizes, inputs))
        found = self._made.get(key)
        return (found or self._for(key, inputs))(*inputs)

    def _for(self, key: Hashable, inputs: Sequence[Any]) -> Any:
        with self._lock:
            if key not in self._made:
                if len(self._made) >= MOST:
                    show(DebugLevel.TASK, "sizes", lambda: f"more than {MOST} sizes: {key} stay in torch")
                    return self._module
                self._made[key] = self._compiled(inputs)
            return self._made[key]

    def _compiled(self, inputs: Sequence[Any]) -> Any:
        """Returns what runs for inputs of these sizes: torch itself where a number of the graph is known only when it runs."""
        fakes = import_module("torch._subclasses.fake_tensor")
        try:
            return self._specialised(inputs)
        except (fakes.DataDependentOutputException, fakes.DynamicOutputShapeException) as error:
            why = str(error)  # the error is gone when this is told
            show(DebugLevel.TASK, "sizes", lambda: f"a graph stays in torch: {why} is known only when it runs")
            return self._module


def _sizes(value: Any) -> Hashable:
    """Tells inputs apart by what torch leaves open."""
    return (tuple(value.shape), value.stride()) if isinstance(value, torch_module().Tensor) else value
