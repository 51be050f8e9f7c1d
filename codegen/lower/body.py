"""The statement inside of the loops of a stage: its expression over loop variables, reads turned into reads of buffers."""

from __future__ import annotations

from ...schedules.boxes import axis_forms
from ...schedules.loops import WRITTEN_OUT, LoopTree, StageLoops
from ...tensor.exceptional import exceptional_condition
from ...tensor.expr import Const, Expr, Op, Read, Var, const, rewrite
from ...tensor.indices.affine import simplify
from ..ir.index import both, floor_div, inside, plus, times
from ..ir.index import number as literal
from ..ir.loop_ir import Block, Buffer, If, Scope, Statement, Store
from .interior import Interior, interior_of
from .storage import Storage, joined_loops
from .view import Names, View, fixed

PRIVATE = (Scope.REGISTER, Scope.STACK, Scope.SCRATCH)


def stored(buffer: Buffer, view: View, statement: Statement) -> Statement:
    """A store or an update of a buffer, done by the threads that the view names."""
    if view.only is None or buffer.scope in PRIVATE:
        return statement
    return If(view.only, statement)


class StageBody:
    """Writes values and stores of the stages of a tree."""

    def __init__(self, tree: LoopTree, storage: dict[str, Storage], names: Names) -> None:
        self.tree = tree
        self.storage = storage
        self.names = names
        self._interiors: dict[str, Interior] = {}

    def store(self, stage: StageLoops, view: View) -> Statement:
        """The stores of a pointwise stage, one for each tensor."""
        definition = self.tree.definition(stage.stage)
        made: list[Statement] = []
        streaming = fixed(stage.hints.streams) > 0
        for number, tensor in enumerate(definition.tensors):
            buffer, indices = self.place(stage, number, view)
            value = self.value(stage, view, otherwise=const(0, tensor.dtype), number=number)
            later = view.later and buffer.scope is Scope.SHARED
            made.append(stored(buffer, view, Store(buffer.name, indices, value, streaming=streaming, later=later)))
        return made[0] if len(made) == 1 else Block(tuple(made))

    def place(self, stage: StageLoops, number: int, view: View) -> tuple[Buffer, tuple[Expr, ...]]:
        """Says where the current point of a stage's tensor is stored."""
        definition = self.tree.definition(stage.stage)
        tensor = definition.tensors[number]
        storage = self.storage[tensor.name]
        if stage.tiled:
            joined = tuple(self._joined(stage, group, view) for group in joined_loops(stage))
            return storage.buffer, self._in_slot(storage, stage.stage, joined, view)
        axes = tuple(a.name for a in definition.axes_of(number))
        points = tuple(view.places[stage.stage, a].position for a in axes)
        return storage.buffer, storage.indices(axes, points, view.origins[stage.stage], self.names.bounds)

    def _in_slot(self, storage: Storage, stage: str, indices: tuple[Expr, ...], view: View) -> tuple[Expr, ...]:
        """Indices with the number of the slot in front, where the storage exists several times."""
        return (view.slots[stage], *indices) if storage.slots > 1 else indices

    def _joined(self, stage: StageLoops, group: tuple[int, ...], view: View) -> Expr:
        """Says how many points of the group's axis, in strides of its innermost loop, the loops of the group have come
        along."""
        loops = [stage.loops[position] for position in group]
        total: Expr = literal(0)
        for loop in loops:
            total = plus(total, times(view.variables[loop.name], fixed(loop.stride) // fixed(loops[-1].stride)))
        axis = loops[0].axis
        if stage.stage not in view.begins or loops[0] is not stage.pieces(axis)[0]:
            return total
        before = floor_div(view.begins[stage.stage][axis], fixed(loops[-1].stride), self.names.bounds)
        return plus(before, total)

    def at(self, stage: StageLoops, expr: Expr, view: View) -> Expr:
        """An expression of a stage at the current point, over loop variables and buffers."""
        definition = self.tree.definition(stage.stage)
        positions = {a.name: view.places[stage.stage, a.name].position for a in definition.all_axes}

        def here(node: Expr) -> Expr | None:
            if isinstance(node, Var):
                return positions.get(node.name)
            return self._read(node, view) if isinstance(node, Read) else None

        return rewrite(expr, here)

    def value(self, stage: StageLoops, view: View, otherwise: Const, number: int = 0) -> Expr:
        """The expression of a stage at the current point; `otherwise` at points that are none of the stage's."""
        bodies = self.interior(stage).bodies if view.inside else self.tree.definition(stage.stage).bodies
        return self.guarded(stage, bodies[number], view, otherwise)

    def interior(self, stage: StageLoops) -> Interior:
        """Returns what is asked of the points of a stage, and its bodies where all of that holds."""
        if stage.stage not in self._interiors:
            definition, leaving = self.tree.definition(stage.stage), self.leaving(stage)
            seldom = exceptional_condition(definition) is not None and not leaving
            # Terms that are seldom asked for would win nothing; with one body, what follows is written without them
            # (passes/split_exceptional.py).
            found = Interior((), definition.bodies) if seldom else interior_of(definition, leaving, _apart(stage))
            self._interiors[stage.stage] = found
        return self._interiors[stage.stage]

    def guarded(self, stage: StageLoops, expr: Expr, view: View, otherwise: Const) -> Expr:
        """Any expression of a stage at the current point; `otherwise` at points that are none of the stage's."""
        value = self.at(stage, expr, view)
        guard = view.lanes
        leaving = frozenset[str]() if view.inside else self.leaving(stage)
        for axis in self.tree.definition(stage.stage).axes:
            if axis.name in leaving:
                position = view.places[stage.stage, axis.name].position
                guard = both(guard, inside(position, axis.extent, self.names.bounds))
        if guard is None:
            return value
        return Op("select", (guard, value, otherwise), otherwise.dtype)

    def leaving(self, stage: StageLoops) -> frozenset[str]:
        """The axes along which the box of an attached stage can go over an end of its tensor.

        Boxes follow their consumers' clamped sizes; only a shifted read can push one out.
        """
        if stage.at is None:
            return frozenset()
        root = [outer for outer, _ in self.tree.chain(stage.stage)][-1].stage
        extents = {a.name: a.extent for a in self.tree.definition(root).all_axes}
        found = set()
        forms = axis_forms(self.tree, stage.stage, root)
        for axis in self.tree.definition(stage.stage).axes:
            box = forms[axis.name]
            last = (box.high + sum(c * (extents[name] - 1) for name, c in box.terms)) // box.divisor
            last = (last + 1) * box.times - 1
            if box.low < 0 or last >= axis.extent:
                found.add(axis.name)
        return frozenset(found)

    def _read(self, read: Read, view: View) -> Expr:
        storage = self.storage[read.tensor]
        producer = self.tree.program.producers.get(read.tensor)
        if producer is None:
            indices = tuple(simplify(i, self.names.bounds) for i in read.indices)
            return Read(storage.buffer.name, indices, read.dtype)
        number = [t.name for t in producer.tensors].index(read.tensor)
        axes = tuple(a.name for a in producer.axes_of(number))
        origin = view.origins.get(producer.name, {})
        indices = storage.indices(axes, read.indices, origin, self.names.bounds)
        return Read(storage.buffer.name, self._in_slot(storage, producer.name, indices, view), read.dtype)


def _apart(stage: StageLoops) -> frozenset[str]:
    """Returns the axes of which no loop is written out."""
    written_out = {loop.axis for loop in stage.loops if loop.kind in WRITTEN_OUT}
    return frozenset(loop.axis for loop in stage.loops) - written_out
