"""Nodes of ATen operators as stages: the part of the way from torch that graphs of any maker share."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...common.errors import ArgumentError, TilesmithError
from ...tensor.build import placeholder
from ...tensor.dtype import DType
from ...tensor.origins import originating
from ...tensor.program import Origin, Tensor
from ..functions.elementwise import cast
from ..functions.function import NotCovered
from .assemble import Assembler
from .aten.registry import Empty, Missing, converters, result
from .faults import Faults
from .torch_export import array_of, dtype_of, operator_name, torch_module

_IGNORED = ("device", "layout", "pin_memory", "memory_format", "generator", "non_blocking", "copy")
_PUTTING = frozenset((  # operators that put elements into their first argument: without any it stays as it is
    "slice_scatter.default", "index_put.default", "_unsafe_index_put.default", "index_add.default", "index_copy.default",
    "scatter.src", "scatter.value", "scatter_add.default", "scatter_reduce.two",
))  # fmt: skip
_CHECKS = ("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range", "_print")


class Nodes:
    """Writes the stages of graphs of nodes, and remembers what is not covered.

    Args:
        made: where stages and constants go.
        wanted: names for results of nodes, by the names of these; others are called after their nodes.
        skipped: names of nodes that are not looked at; something stands for their results.
    """

    def __init__(self, made: Assembler, wanted: Mapping[str, str], skipped: Collection[str] = ()) -> None:
        self._torch = torch_module()
        self._fx = self._torch.fx.node
        self._made = made
        self._wanted = wanted
        self._skipped = skipped
        self.faults = Faults()

    def input(self, node: Any) -> Any:
        """An input of the model for a placeholder; what is no tensor is fixed."""
        value = node.meta.get("val")
        if not isinstance(value, self._torch.Tensor):
            return value  # a number or None, fixed when the module was exported
        dtype = self._dtype(value, node)
        return self._made.input(node.name, self._shape(value, node), dtype) if dtype else self._unknown(node, value)

    def stand_in(self, node: Any) -> Any:
        """Returns what a placeholder stands for where only the operators are looked at: also what no model takes."""
        value = node.meta.get("val")
        return Empty() if self._is_empty(value) else self._unknown(node, value)

    def constant(self, name: str, tensor: Any, node: Any) -> Any:
        """A constant with the value of a tensor."""
        dtype = self._dtype(tensor, node)
        if dtype is None:
            return self._unknown(node, node.meta["val"])
        if 0 in tensor.shape:
            return Empty()
        return self._made.constant(name, array_of(tensor), dtype)

    def run(self, owner: Any, graph: Any, values: dict[Any, Any]) -> Any:
        """The results of a graph, whose placeholders have values; `values` then has those of all nodes."""
        for node in graph.nodes:
            if node.op == "call_function":
                if node.users:
                    values[node] = self._call(owner, node, values)
                elif operator_name(node.target).partition(".")[0] not in _CHECKS and not _is_pure(node):
                    self.fault(operator_name(node.target), node)
            elif node.op == "get_attr":
                values[node] = self._attribute(owner, node)
            elif node.op == "output":
                return self._mapped(node.args[0], values)
        return ()

    def fault(self, what: str, node: Any) -> None:
        """Remembers what is not covered of a node."""
        self.faults.add(what, node.name)

    def _attribute(self, owner: Any, node: Any) -> Any:
        found = operator.attrgetter(node.target)(owner)
        if not isinstance(found, self._torch.Tensor):
            return found
        return self.constant(node.target, found, node)

    def _call(self, owner: Any, node: Any, values: dict[Any, Any]) -> Any:
        """The results of one node; stand-ins where it is not covered."""
        name = operator_name(node.target)
        if node.name in self._skipped:
            return self._unknown(node, node.meta.get("val"))
        try:
            args, kwargs = self._mapped(node.args, values), self._mapped(dict(node.kwargs), values)
            if node.target is operator.getitem:
                return args[0][args[1]]
            if self._is_empty(node.meta.get("val")):
                return Empty()
            empty = any(isinstance(leaf, Empty) for leaf in _leaves([*args, *kwargs.values()]))
            unchanged = empty and name in _PUTTING
            if empty and not unchanged and name != "cat.default":
                raise NotCovered("a tensor without elements")
            if name == "higher_order.wrap_with_set_grad_enabled":
                return self._inlined(args[1], args[2:])
            convert = converters().get(name)
            if convert is None:
                raise NotCovered(name)
            if name.startswith("as_strided") and not _lies_in_rows(node.args[0].meta.get("val")):
                raise NotCovered("strides over memory in which elements do not lie row by row from its start on")
            with originating(_origin(node, name)):
                plain = {k: v for k, v in kwargs.items() if k not in _IGNORED}
                outcome = args[0] if unchanged else convert(*args, **plain)
                outcome = self._checked(node, outcome)
        except NotCovered as error:
            same = error.problem == name
            self.fault(name if same else f"{name} ({error.problem})", node)
            return self._unknown(node, node.meta.get("val"))
        except TilesmithError as error:
            self.fault(f"{name} ({error.problem}{': ' + error.found if error.found else ''})", node)
            return self._unknown(node, node.meta.get("val"))
        self._made.place(self._wanted.get(node.name, node.name), result(outcome))
        return outcome

    def _is_empty(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor) and any(type(n) is int and n == 0 for n in value.shape)

    def _inlined(self, module: Any, args: Sequence[Any]) -> Any:
        inner = [node for node in module.graph.nodes if node.op == "placeholder"]
        return self.run(module, module.graph, dict(zip(inner, args, strict=True)))

    def _mapped(self, item: Any, values: dict[Any, Any]) -> Any:
        """Arguments of a node with values for nodes and dtypes as they are called here."""
        torch, node_type = self._torch, self._fx.Node

        def one(leaf: Any) -> Any:
            if isinstance(leaf, node_type):
                leaf = values.get(leaf)
                if isinstance(leaf, Missing):
                    raise NotCovered(leaf.why)
            if isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool):
                raise NotCovered("a number that depends on data")
            if isinstance(leaf, torch.dtype):
                found = dtype_of(leaf)
                if found is None:
                    raise NotCovered(f"the dtype {leaf}")
                return found
            return None if isinstance(leaf, torch.device | torch.layout | torch.memory_format) else leaf

        return self._fx.map_aggregate(item, one)

    def _checked(self, node: Any, outcome: Any) -> Any:
        """Returns what a function gave, in the dtype that torch says. Errors: NotCovered for another shape."""
        said = node.meta.get("val")
        if isinstance(outcome, tuple | list):
            parts = [self._checked_one(node, o, v) for o, v in zip(outcome, said, strict=False)]
            return tuple(parts)
        return self._checked_one(node, outcome, said)

    def _checked_one(self, node: Any, outcome: Any, said: Any) -> Any:
        if not isinstance(outcome, Tensor) or not isinstance(said, self._torch.Tensor):
            return outcome
        shape, dtype = self._shape(said, node), self._dtype(said, node)
        if outcome.shape != shape:
            raise NotCovered(f"a result of {outcome.shape} where torch has {shape}")
        return outcome if dtype is None else cast(outcome, dtype)

    def _unknown(self, node: Any, value: Any) -> Any:
        """Returns what stands for results that are not known, so that the nodes behind are looked at too."""
        if isinstance(value, tuple | list):
            return tuple(self._unknown(node, part) for part in value)
        if not isinstance(value, self._torch.Tensor):
            return value
        shape = self._shape(value, node)
        return placeholder(tuple(max(size, 1) for size in shape), self._dtype(value, node) or "f32")

    def _dtype(self, value: Any, node: Any) -> DType | None:
        found = dtype_of(value.dtype)
        if found is None:
            self.fault("complex numbers" if value.dtype.is_complex else f"the dtype {value.dtype}", node)
        return found

    def _shape(self, value: Any, node: Any) -> tuple[int, ...]:
        if any(not isinstance(size, int) for size in value.shape):
            self.fault("shapes that depend on data or are left open", node)
            return tuple(size if isinstance(size, int) else 1 for size in value.shape)
        return tuple(value.shape)

    def refusal(self) -> ArgumentError:
        """One error for all that is not covered."""
        return self.faults.refusal("module", "write these parts with other operators, or leave them to torch")


def _lies_in_rows(value: Any) -> bool:
    return bool(value.is_contiguous()) and value.storage_offset() == 0


def _is_pure(node: Any) -> bool:
    """Says whether a node without users may be left out."""
    schema = getattr(node.target, "_schema", None)
    return node.target is operator.getitem or (schema is not None and not schema.is_mutable)


_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def _origin(node: Any, name: str) -> Origin:
    """Operator, path of the module, and the innermost line that is not torch's own."""
    stack = node.meta.get("nn_module_stack") or {}
    layer = list(stack.values())[-1][0] if stack else ""
    file, line = _place(node.meta.get("stack_trace") or "")
    plain = name.partition(".")[0].lstrip("_").removeprefix("native_").removesuffix("_legit_no_training")
    return Origin(plain, re.sub(r"^L\['\w+'\]\.?", "", str(layer)), file, line)


def _leaves(args: Sequence[Any]) -> Iterator[Any]:
    """Yields arguments, and those of lists among them."""
    for arg in args:
        yield from arg if isinstance(arg, list | tuple) else (arg,)


@lru_cache(maxsize=4096)
def _place(trace: str) -> tuple[str, int]:
    frames = [(file, int(line)) for file, line in _FRAME.findall(trace)]
    outside = [frame for frame in frames if "torch" not in Path(frame[0]).parts]
    return (outside or frames or [("", 0)])[-1]
