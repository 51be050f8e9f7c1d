"""What is covered of a graph of torch, as a function of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...graph.importers.torch_export import array_of, torch_module
from ...graph.memory_order import MemoryOrder, order_of
from ...runtime.kernel import Kernel
from .result_memory import POOL, ResultMemory


class Part:
    """A kernel that takes and gives torch tensors as a graph of torch would: results lie in memory as torch said.

    Args:
        kernel: of the part's model.
        results: fake tensors with shape, dtype and strides of each result.
        single: whether the graph's result is a tensor and no tuple.
        fixed: number of an operand -> the parameter that the kernel has as a constant of this name.
        orders: number of an operand -> the order of its dimensions in memory, in which the kernel takes it.
    """

    def __init__(
        self,
        kernel: Kernel,
        results: Sequence[Any],
        *,
        single: bool,
        fixed: Mapping[int, tuple[str, Any]],
        orders: Mapping[int, MemoryOrder],
    ) -> None:
        self._torch = torch_module()
        self._fixed = {number: name for number, (name, _) in fixed.items()}
        self._prepared = kernel, self._state({number: tensor for number, (_, tensor) in fixed.items()})
        self._memory = ResultMemory([(tuple(one.shape), one.dtype) for one in results], POOL)
        self._strides = [_order(one) for one in results]
        self._single = single
        operands = len(kernel.artifact.inputs) + len(fixed)
        self._taken = [(number, orders.get(number)) for number in range(operands) if number not in fixed]

    def __call__(self, *tensors: Any) -> Any:
        """The results for these tensors."""
        torch = self._torch
        kernel = self._with_constants(tensors) if self._fixed else self._prepared[0]
        if torch.is_grad_enabled():  # AOTAutograd has seen to gradients
            tensors = tuple(one.detach() if one.requires_grad else one for one in tensors)
        given = [_as_taken(tensors[number], order) for number, order in self._taken]
        made = self._memory.tensors()
        kernel(*given, out=made[0] if len(made) == 1 else tuple(made))
        laid = [
            one if strides is None else torch.empty_strided(one.shape, strides, dtype=one.dtype).copy_(one)
            for one, strides in zip(made, self._strides, strict=True)
        ]
        return laid[0] if self._single else tuple(laid)

    def _with_constants(self, tensors: Sequence[Any]) -> Kernel:
        """The kernel with these parameters: a new one where they are others or were written to."""
        kernel, known = self._prepared
        state = self._state(tensors)
        if [seen for _, *seen in state] != [seen for _, *seen in known]:
            values = {name: array_of(tensors[number]) for number, name in self._fixed.items()}
            values = {spec.name: values[spec.name] for spec in kernel.artifact.constants}
            kernel = Kernel(kernel.artifact, values, provenance=kernel.provenance, device=kernel.device)
            self._prepared = kernel, state
        return kernel

    def _state(self, tensors: Any) -> list[tuple[Any, int, int]]:
        """The parameters, which keeps their memory from being another's, where they lie and how often they were written to."""
        return [(tensors[n], tensors[n].data_ptr(), tensors[n]._version) for n in self._fixed]


def _as_taken(tensor: Any, order: MemoryOrder | None) -> Any:
    """An operand as kernels take it, with its dimensions in the order of memory: a view, where it lies as torch said."""
    lying = tensor if order is None else tensor.permute(order)
    return lying if lying.is_contiguous() and not lying.is_neg() else lying.resolve_neg().contiguous()


def orders_of(graph: Any) -> dict[int, MemoryOrder]:
    """Number of an operand -> the order of its dimensions in memory, where that is another than that of the dimensions."""
    fakes = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    kind = torch_module().Tensor
    found = {
        number: order_of(tuple(fake.shape), fake.stride())
        for number, fake in enumerate(fakes)
        if isinstance(fake, kind)
    }
    return {number: order for number, order in found.items() if order is not None}


def _order(fake: Any) -> tuple[int, ...] | None:
    """The strides of a result; None where it lies as kernels write it."""
    return None if fake.is_contiguous() else tuple(fake.stride())
