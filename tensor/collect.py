"""From computed tensors to programs: what a tensor carries, and how `program` collects it.

Tensors without a name get x0, x1, ... (inputs), c0, ... (tables) and t0, ... (computed) here. `own_names` is for functions
that are called many times for one program: the names in them are told apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ..common.errors import ProgramError
from .expr import Expr, Read, rewrite
from .program import Fold, Input, Program, Stage, Table, Tensor

_fresh = itertools.count()
_owned: ContextVar[bool] = ContextVar("owned", default=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """Makes one or several tensors: an input, a table or a stage, and the tensors that it reads."""

    definition: Input | Table | Stage
    reads: tuple[Made, ...] = ()


@dataclass(frozen=True, slots=True)
class Made(Tensor):
    """A tensor that knows how it is made."""

    operation: Operation | None = field(default=None, compare=False, repr=False)

    @property
    def is_constant(self) -> bool:
        """Says whether it is an input that is known when the program is compiled."""
        made = None if self.operation is None else self.operation.definition
        return isinstance(made, Input) and made.constant


def fresh_name() -> str:
    """A name that no person can write, until `program` or `compute` chooses one."""
    return f"?{next(_fresh)}"


@contextmanager
def own_names() -> Iterator[None]:
    """Gives each tensor computed inside a name that no other has; the name that is given for it is the last part of it."""
    token = _owned.set(True)
    try:
        yield
    finally:
        _owned.reset(token)


def stage_name(given: str | None) -> str:
    """The name of a computed tensor for which a name is given, or none."""
    if given is None:
        return fresh_name()
    return f"{fresh_name()}_{given}" if _owned.get() and given[0] != "?" else given


def given_part(name: str) -> str:
    """Returns the given part of a name that `stage_name` made: "sums" of "?17_sums"; empty where there is none."""
    return name.partition("_")[2] if name[0] == "?" else name


def program(outputs: Tensor | Sequence[Tensor], inputs: Sequence[Tensor] | None = None) -> Program:
    """The program that computes `outputs`.

    Args:
        outputs: computed tensors, in the order of the results.
        inputs: the order of the arguments; by default that in which a walk from the outputs meets them.
    """
    wanted = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    operations = _collect([_operation(tensor) for tensor in wanted])
    declared = [o.definition for o in operations if isinstance(o.definition, Input)]
    if inputs is not None:
        given = [_operation(tensor).definition for tensor in inputs]
        missing = [i.tensor.name for i in declared if all(i is not g for g in given)]
        if missing or not all(isinstance(g, Input) for g in given):
            raise ProgramError(
                "the inputs given are not those that the program reads", expected="every placeholder and constant",
                found="missing: " + ", ".join(missing) if missing else "something that is no placeholder",
            )  # fmt: skip
        declared = [g for g in given if isinstance(g, Input)]
    tables = [o.definition for o in operations if isinstance(o.definition, Table)]
    stages = [o.definition for o in operations if isinstance(o.definition, Stage)]
    names = _final_names(declared, tables, stages)

    def renamed(tensor: Tensor) -> Tensor:
        return Tensor(names.get(tensor.name, tensor.name), tensor.dtype, tensor.shape)

    return Program(
        tuple(Input(renamed(i.tensor), i.constant) for i in declared),
        tuple(renamed_stage(stage, names) for stage in stages),
        tuple(names.get(tensor.name, tensor.name) for tensor in wanted),
        tuple(Table(renamed(t.tensor), t.values) for t in tables),
    )


def _operation(tensor: Tensor) -> Operation:
    if not isinstance(tensor, Made) or tensor.operation is None:
        raise ProgramError(f"{tensor.name} was not made by placeholder, constant, table, compute or fold")
    return tensor.operation


def _collect(wanted: list[Operation]) -> list[Operation]:
    """All operations that are needed, each after those it reads."""
    found: dict[int, Operation] = {}
    done: set[int] = set()
    pending = [(operation, False) for operation in reversed(wanted)]
    while pending:
        operation, ready = pending.pop()
        if id(operation) in done:
            continue
        if ready:
            done.add(id(operation))
            found[id(operation)] = operation
            continue
        pending.append((operation, True))
        pending.extend((_operation(tensor), False) for tensor in reversed(operation.reads))
    return list(found.values())


def _final_names(inputs: list[Input], tables: list[Table], stages: list[Stage]) -> dict[str, str]:
    """Names for the tensors that have none."""
    groups = (("x", [i.tensor for i in inputs]), ("c", [t.tensor for t in tables]))
    computed = ("t", [tensor for stage in stages for tensor in stage.tensors])
    taken = {tensor.name for _, group in (*groups, computed) for tensor in group}
    names: dict[str, str] = {}
    for letter, group in (*groups, computed):
        free = (f"{letter}{number}" for number in itertools.count())
        for tensor in group:
            if tensor.name[0] == "?":
                names[tensor.name] = next(name for name in free if name not in taken)
    return names


def renamed_stage(stage: Stage, names: dict[str, str]) -> Stage:
    """The stage with other names for tensors; those that `names` lacks stay."""

    def replace(node: Expr) -> Expr | None:
        if isinstance(node, Read) and node.tensor in names:
            return Read(names[node.tensor], node.indices, node.dtype)
        return None

    def renamed(expr: Expr) -> Expr:
        return rewrite(expr, replace)

    parts = stage.fold and Fold(
        stage.fold.tensor_axes, stage.fold.initial, tuple((n, renamed(v)) for n, v in stage.fold.locals)
    )
    tensors = tuple(Tensor(names.get(t.name, t.name), t.dtype, t.shape) for t in stage.tensors)
    bodies = tuple(map(renamed, stage.bodies))
    return Stage(tensors, stage.axes, bodies, stage.reduction, stage.combiner, parts, stage.origin)
