"""From tensors that functions have made, node by node, to a model: names, order, dead stages left out.

Importers hold one `Assembler`. Stages stand in the order in which nodes made them, and are called after their nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...tensor.build import constant, placeholder
from ...tensor.collect import Made, Operation, given_part, renamed_stage
from ...tensor.dtype import DType
from ...tensor.program import Input, Program, Stage, Table, Tensor
from ...tensor.reserved import RESERVED
from ..functions.elementwise import copy
from ..model import Model

Array = np.ndarray[Any, Any]


class Assembler:
    """Collects what a model is made of."""

    def __init__(self) -> None:
        self._inputs: list[Tensor] = []
        self._values: dict[str, Array] = {}
        self._order: list[Operation] = []
        self._known: set[int] = set()
        self._names: dict[str, str] = {}  # of the tensors as they were made -> of the model
        self._taken: set[str] = set()

    def input(self, name: str, shape: Sequence[int], dtype: DType) -> Tensor:
        """An operand of each call, in the order of these calls."""
        return self._declared(placeholder(tuple(shape), dtype, self._free(name)))

    def constant(self, name: str, value: Array, dtype: DType) -> Tensor:
        """A tensor whose value is known; the array is not copied."""
        made = self._declared(constant(value.shape, dtype, self._free(name)))
        self._values[made.name] = value
        return made

    def place(self, name: str, results: Iterable[Tensor]) -> None:
        """The stages of one node, called after it: its only result is the name itself."""
        made = [tensor for tensor in results if isinstance(tensor, Made)]
        own = {tensor.name: name if len(made) == 1 else f"{name}_{number}" for number, tensor in enumerate(made)}
        for operation in self._new(made):
            self._order.append(operation)
            for tensor in _tensors(operation):
                part = given_part(tensor.name) or "part"
                self._names[tensor.name] = self._free(own.get(tensor.name) or f"{name}_{part}")

    def model(self, outputs: Sequence[tuple[str, Tensor]], name: str = "model") -> Model:
        """The model of these outputs. Those that are inputs, or one tensor twice, become copies with names of their own."""
        results: list[Tensor] = []
        for wanted, tensor in outputs:
            is_input = isinstance(_operation(tensor).definition, Input)
            result = copy(tensor) if is_input or any(tensor is other for other in results) else tensor
            if result is not tensor:
                self.place(f"{wanted}_out", [result])
            results.append(result)
        live = self._live(results)
        stages = [o.definition for o in self._order if id(o) in live and isinstance(o.definition, Stage)]
        tables = [o.definition for o in self._order if id(o) in live and isinstance(o.definition, Table)]
        declared = [(tensor, o) for tensor in self._inputs if (o := _operation(tensor)) and self._kept(o, live)]
        inputs = [o.definition for _, o in declared if isinstance(o.definition, Input)]
        constants = {i.tensor.name: self._values[i.tensor.name] for i in inputs if i.constant}
        program = Program(
            tuple(inputs),
            tuple(renamed_stage(stage, self._names) for stage in stages),
            tuple(self._names[tensor.name] for tensor in results),
            tuple(Table(self._renamed(table.tensor), table.values) for table in tables),
        )
        return Model(program, constants, name)

    def _declared(self, tensor: Tensor) -> Tensor:
        self._inputs.append(tensor)
        self._known.add(id(_operation(tensor)))
        return tensor

    def _kept(self, operation: Operation, live: Mapping[int, Operation]) -> bool:
        """An input stays, and a constant that is read."""
        definition = operation.definition
        return isinstance(definition, Input) and (not definition.constant or id(operation) in live)

    def _new(self, tensors: Sequence[Made]) -> list[Operation]:
        """Returns what makes tensors and was not met before, each after those it reads."""
        found: list[Operation] = []
        pending = [(_operation(tensor), False) for tensor in reversed(tensors)]
        while pending:
            operation, ready = pending.pop()
            if id(operation) in self._known:
                continue
            if ready:
                self._known.add(id(operation))
                found.append(operation)
                continue
            pending.append((operation, True))
            pending.extend((_operation(tensor), False) for tensor in reversed(operation.reads))
        return found

    def _live(self, results: Sequence[Tensor]) -> dict[int, Operation]:
        live: dict[int, Operation] = {}
        pending = [_operation(tensor) for tensor in results]
        while pending:
            operation = pending.pop()
            if id(operation) not in live:
                live[id(operation)] = operation
                pending += [_operation(tensor) for tensor in operation.reads]
        return live

    def _renamed(self, tensor: Tensor) -> Tensor:
        return Tensor(self._names.get(tensor.name, tensor.name), tensor.dtype, tensor.shape)

    def _free(self, wanted: str) -> str:
        """A name that the text form allows and nothing else has."""
        base = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "tensor"
        base = f"t_{base}" if base[0].isdigit() else f"{base}_" if base in RESERVED else base
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


def _operation(tensor: Tensor) -> Operation:
    assert isinstance(tensor, Made) and tensor.operation is not None
    return tensor.operation


def _tensors(operation: Operation) -> tuple[Tensor, ...]:
    definition = operation.definition
    return definition.tensors if isinstance(definition, Stage) else (definition.tensor,)
