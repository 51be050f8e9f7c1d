"""Programs: a DAG of stages over named tensors. Frozen data, checked when made.

    Program   inputs (declared order, constants among them), tables, stages in topological order, outputs
    Stage     defines a tuple of tensors over spatial axes, perhaps with reduction axes

A stage is one of three:

    pointwise  reduction == (),  combiner is None                     bodies = one expression for each tensor
    reduction  reduction != (),  combiner in sum prod max min         bodies = one expression (one tensor)
    fold       reduction = (ordered axis,), combiner == "fold"        bodies = the new state; `fold` holds the rest

Axis names are scoped to their stage. Tensors are referred to by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace
from html import escape

from ..common.cached import cached_property
from .dtype import DType
from .expr import Const, Expr, Read, Var, reads

COMBINERS = ("sum", "prod", "max", "min")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of one stage: it runs over 0 .. extent - 1."""

    name: str
    extent: int

    @property
    def var(self) -> Var:
        """The axis as an index expression."""
        return Var(self.name)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array of static shape. `shape == ()` is a scalar. Indexing it with expressions gives a `Read`."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    def __getitem__(self, indices: object) -> Read:
        from .build import read  # the friendly checks live with the builders

        return read(self, indices)


@dataclass(frozen=True, slots=True)
class Input:
    """A declared operand. A constant one is known when the program is compiled."""

    tensor: Tensor
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A small array whose values stand in the text, in row-major order."""

    tensor: Tensor
    values: tuple[int | float | bool, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Says where a stage comes from; shown to people, never part of a key. `also`: of stages that were written into it."""

    operator: str = ""
    layer: str = ""
    file: str = ""
    line: int = 0
    also: tuple[Origin, ...] = ()

    @property
    def all(self) -> tuple[Origin, ...]:
        """Returns those of stages that were written into it, which come before it, then its own, each once and for itself."""
        if not self.also:
            return (self,)
        return tuple(dict.fromkeys([*(one for other in self.also for one in other.all), replace(self, also=())]))


@dataclass(frozen=True, slots=True)
class Fold:
    """The parts that only a fold has.

    For each tensor of the stage: the axes it keeps (the first of the stage's spatial axes, in the order of its dimensions) and
    its initial value. The axes of the stage are those of the first tensor that keeps all, those first that more tensors keep.
    `locals` are (name, expression) in order; bodies and later locals may use them through `Local`. A read of an own tensor
    inside means its value before this step.
    """

    tensor_axes: tuple[tuple[str, ...], ...]
    initial: tuple[Const, ...]
    locals: tuple[tuple[str, Expr], ...] = ()


def fold_axes(kept: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The axes of a fold whose tensors keep these: those of the first that keeps most, those first that more tensors keep."""
    whole: Sequence[str] = max(kept, key=len)
    return tuple(sorted(whole, key=lambda name: -sum(name in names for names in kept)))


class _Remembering:
    """Keeps its hash and what is found out about it (common/remembered.py). None of it is pickled: hashes differ by process."""

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_hash", "_known")}


@dataclass(frozen=True)
class Stage(_Remembering):
    """One definition; see the head of this file. `origin` is not compared."""

    tensors: tuple[Tensor, ...]
    axes: tuple[Axis, ...]
    bodies: tuple[Expr, ...]
    reduction: tuple[Axis, ...] = ()
    combiner: str | None = None
    fold: Fold | None = None
    origin: Origin = field(default=Origin(), compare=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.tensors, self.axes, self.bodies, self.reduction, self.combiner, self.fold))

    @property
    def name(self) -> str:
        """The name of the first tensor, by which the stage is known."""
        return self.tensors[0].name

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        """Spatial axes, then reduction axes."""
        return self.axes + self.reduction

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """All expressions evaluated at each point: fold locals, then bodies."""
        return (tuple(e for _, e in self.fold.locals) if self.fold else ()) + self.bodies

    def axes_of(self, index: int) -> tuple[Axis, ...]:
        """The axes over which tensor number `index` is defined."""
        if self.fold is None:
            return self.axes
        known = {axis.name: axis for axis in self.axes}
        return tuple(known[name] for name in self.fold.tensor_axes[index] if name in known)

    def axis(self, name: str) -> Axis:
        """The axis of this name. Raises KeyError."""
        for axis in self.all_axes:
            if axis.name == name:
                return axis
        raise KeyError(name)

    def reads(self) -> tuple[Read, ...]:
        """All distinct reads of other stages' tensors, inputs and tables."""
        return self._reads

    @cached_property
    def _reads(self) -> tuple[Read, ...]:
        own = {tensor.name for tensor in self.tensors}
        return tuple(dict.fromkeys(r for e in self.expressions for r in reads(e) if r.tensor not in own))


@dataclass(frozen=True, repr=False)
class Program(_Remembering):
    """A checked program. Errors are `ProgramError`s raised when it is made (see check.py).

    `like`: a checked program whose stages, where this one has the very same, need not be checked again.
    """

    inputs: tuple[Input, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]
    tables: tuple[Table, ...] = ()
    like: InitVar[Program | None] = None

    def __post_init__(self, like: Program | None) -> None:
        from .check import check_program

        check_program(self, like)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.inputs, self.stages, self.outputs, self.tables))

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name: inputs, tables, stages, in that order."""
        named = [i.tensor for i in self.inputs] + [t.tensor for t in self.tables]
        return {t.name: t for t in named + [t for s in self.stages for t in s.tensors]}

    @cached_property
    def producers(self) -> dict[str, Stage]:
        """Tensor name -> the stage that defines it."""
        return {tensor.name: stage for stage in self.stages for tensor in stage.tensors}

    @cached_property
    def consumers(self) -> dict[str, tuple[Stage, ...]]:
        """Tensor name -> the stages that read it, in order. Every tensor is a key."""
        found: dict[str, list[Stage]] = {name: [] for name in self.tensors}
        for stage in self.stages:
            for name in dict.fromkeys(r.tensor for r in stage.reads()):
                found[name].append(stage)
        return {name: tuple(stages) for name, stages in found.items()}

    @property
    def dynamic_inputs(self) -> tuple[Tensor, ...]:
        """Operands given at each call, in order."""
        return tuple(i.tensor for i in self.inputs if not i.constant)

    @property
    def constant_inputs(self) -> tuple[Tensor, ...]:
        """Operands given when the program is compiled, in order."""
        return tuple(i.tensor for i in self.inputs if i.constant)

    @cached_property
    def places(self) -> dict[str, int]:
        """Stage name -> its place in the order of the program."""
        return {stage.name: place for place, stage in enumerate(self.stages)}

    def stage(self, name: str) -> Stage:
        """The stage that defines tensor `name`. Raises KeyError."""
        return self.producers[name]

    def replacing(self, stages: tuple[Stage, ...]) -> Program:
        """The same program with other stages (they are checked)."""
        return replace(self, stages=stages, like=self)

    def __str__(self) -> str:
        from .printing import print_program

        return print_program(self)

    def __repr__(self) -> str:
        def shown(tensor: Tensor) -> str:
            return f"{tensor.name}: {tensor.dtype}{list(tensor.shape)}"

        given = ", ".join(f"{'constant ' if i.constant else ''}{shown(i.tensor)}" for i in self.inputs)
        made = ", ".join(shown(self.tensors[name]) for name in self.outputs)
        return f"<Program ({given}) -> {made}, {len(self.stages)} stage{'' if len(self.stages) == 1 else 's'}>"

    def _repr_html_(self) -> str:
        """Returns the text, for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"
