"""The loops of one root and all that is attached inside of it, as loop IR. The meaning stands at the top of lower.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...schedules.loops import Loop, LoopKind, LoopTree, StageLoops
from ...schedules.plan.partial import parts_of
from ...schedules.plan.stage import Plan
from ...schedules.plan.threads import BOUND
from ...schedules.regions import full_tile
from ...schedules.steps.checks import wrong
from ...targets.target import Target
from ...tensor.dtype import boolean
from ...tensor.expr import Const, Expr, Op, Read
from ...tensor.identity import identity
from ..ir.index import both, floor_div, known, minus, number, plus, smaller, times
from ..ir.loop_ir import (
    BLOCK_INDEX,
    THREAD_INDEX,
    Allocate,
    Block,
    Buffer,
    For,
    If,
    Nest,
    Scope,
    Statement,
    Store,
    Update,
)
from .aligned import aligned_points, aligned_reduction, aligned_start
from .attached import box_in, first_trip
from .blocked_sums import cut_of, summed_apart
from .body import StageBody, stored
from .cross_threads import CrossThreads
from .exceptional import where_asked
from .fold import FoldLowering
from .loops import Around, LoopLowering, Next
from .matrix import MatrixTile
from .prefetch_next import prefetch_next
from .refusals_gpu import check_launch, check_shared
from .scatter import ScatterLowering
from .software_pipeline import SoftwarePipeline, stages_of
from .storage import Storage
from .thread_groups import blocks, threads_of, whole_block
from .view import ALONE, AxisRange, Names, Team, View, fixed
from .whole_tile import inside, whole


class NestLowering:
    """Writes the nests of a tree."""

    def __init__(self, tree: LoopTree, plan: Plan, storage: dict[str, Storage], target: Target) -> None:
        self.tree = tree
        self.plan = plan
        self.target = target
        self.storage = storage
        self.names = Names()
        self.body = StageBody(tree, storage, self.names)

    def nest(self, stage: StageLoops) -> Nest:
        """The whole nest of a stage at the root."""
        if not self.target.is_gpu:
            self.names.restart()
            return Nest(stage.stage, self.root(stage, ALONE))
        count, threads = blocks(stage, BLOCK_INDEX).size, threads_of(self.tree, stage, self.target)
        check_launch(self.tree, stage, count, self.target)
        self.names.bounds[BLOCK_INDEX.name] = (0, count - 1)
        self.names.bounds[THREAD_INDEX.name] = (0, threads - 1)
        nest = Nest(stage.stage, self.root(stage, whole_block(threads)), count, threads)
        check_shared(self.tree, stage, nest, self.target)
        return nest

    def root(self, stage: StageLoops, team: Team) -> Statement:
        """Returns what a nest does."""
        places = {
            (stage.stage, axis): AxisRange(number(0), number(fixed(extent))) for axis, extent in stage.box.items()
        }
        origin: dict[str, Expr] = {axis: number(0) for axis in stage.box}
        return self._stage(stage, View(places, {stage.stage: origin}, team=team))

    def attached(self, name: str, view: View) -> tuple[View, Statement]:
        """An attached stage opened in a view; the view that comes back knows where its box begins."""
        places, origins = box_in(self.tree, name, view, self.names.bounds)
        view = replace(view, origins={**view.origins, name: origins})
        return view, self._opened(name, view, places)

    def begun(self, name: str, view: View) -> View:
        """The view that knows where the box of an attached stage begins, which runs on first use."""
        _, origins = box_in(self.tree, name, view, self.names.bounds)
        return replace(view, origins={**view.origins, name: origins})

    def first_use(self, name: str, view: View) -> Statement:
        """Computes what a trip of a loop farther inside reads of an attached stage, where it is the first to."""
        places, _ = box_in(self.tree, name, view, self.names.bounds)
        begins = {axis: minus(places[name, axis].position, start) for axis, start in view.origins[name].items()}
        statement = self._opened(name, replace(view, begins={**view.begins, name: begins}), places)
        first = first_trip(self.tree, name, view)
        return statement if first is None else If(first, statement)

    def _opened(self, name: str, view: View, places: dict[tuple[str, str], AxisRange]) -> Statement:
        """The loops of an attached stage at the places that it has in a view."""
        inner = replace(view, variables={}, edge=None, inside=False, tail=False, lanes=None, places=places)
        if not self.target.is_gpu:
            inner = replace(inner, variables=view.variables)  # hints count the trips of the loops around
        return self._stage(self.tree.by_stage[name], inner)

    def _stage(self, stage: StageLoops, view: View) -> Statement:
        if self.tree.definition(stage.stage).fold is not None:
            return FoldLowering(self, stage, view.team).statement(view)
        if self.plan.stages[stage.stage].loops.scattered is not None:
            return ScatterLowering(self, stage, view.team).statement(view)
        return StageLowering(self, stage, view.team).statement(view)


class StageLowering(LoopLowering):
    """The loops and the statement of a pointwise stage or a reduction."""

    def __init__(self, nest: Around, stage: StageLoops, team: Team = ALONE) -> None:
        super().__init__(nest, stage, team)
        self.accumulate_at = self.planned.accumulate_at
        self.tile_at = self.planned.tile_at
        self.aligned_at = aligned_start(self)

    # ---- from the outermost loop in ----

    def statement(self, view: View) -> Statement:
        """All loops and what they do."""
        return self._descend(replace(view, only=self.threads.only(view)), 0)

    def _descend(self, view: View, depth: int) -> Statement:
        if depth == self.aligned_at and view.edge is None:
            return aligned_points(self, view, depth, self._below, lambda v: self.nest.body.store(self.stage, v))
        return self._below(view, depth)

    def _below(self, view: View, depth: int) -> Statement:
        if self.stage.tensorized and depth == self.accumulate_at:
            return MatrixTile(self, depth).statement(view)
        if depth == self.tile_at and view.edge is None:
            return self._tile(view, depth)
        if depth == self.accumulate_at:
            return self._accumulate(view, depth)
        if depth == self.first_reduction and self.accumulate_at is None:
            return self._accumulate_in_storage(view, depth)
        if depth == len(self.loops):
            return self.nest.body.store(self.stage, view)
        return self.loop(view, depth, self._descend)

    def _tile(self, view: View, depth: int) -> Statement:
        """The register tile, with a body of its own for the edge where there can be one."""
        if any(not f and not r for f, r in zip(self.full[depth:], self.reduces[depth:], strict=True)):
            return self._descend(replace(view, edge=True), depth)  # loops inside of it decide what is an edge
        edge = replace(view, edge=True)
        asked, can_be = whole(self, view)
        if not can_be:
            return self._descend(edge, depth)
        guards, has_inside = inside(self, view)
        inner = replace(view, edge=False, inside=has_inside)
        condition = both(asked, guards)
        if condition is None:
            return self._descend(inner, depth)
        if not has_inside and self._one_body():
            return self._descend(edge, depth)
        return If(condition, self._descend(inner, depth), self._descend(edge, depth))

    def _one_body(self) -> bool:
        """Masks cost little beside a reduction, or where a pack is turned in registers; a second body costs compile time."""
        return self.nest.target.has_masks and (self.accumulate_at is not None or self._is_turned())

    def _is_turned(self) -> bool:
        """Says whether this is a copy that goes through registers into another copy, or that other one."""
        tree = self.nest.tree
        inside = [s for s in tree.stages if s.at is not None and s.at[0] == self.stage.stage]
        squares = [s for s in (self.stage, *inside) if s.scope is Scope.REGISTER and s.at is not None]
        return any(s.at is not None and tree.by_stage[s.at[0]].copies is not None for s in squares)

    # ---- one loop ----

    def whole_loop(self, view: View, depth: int, inner: Next) -> Statement:
        """A loop that may run copies ahead, or be a reduction."""
        if self.full[depth]:
            return super().whole_loop(view, depth, inner)
        loop = self.loops[depth]
        pipeline = SoftwarePipeline(self, loop) if stages_of(self.stage, loop.name) > 1 else None
        if pipeline is not None and pipeline.ahead:
            return pipeline.statement(view, lambda v: inner(v, depth + 1))
        if self.reduces[depth]:
            return self._reduction_loop(view, depth, inner)
        return self.clamped(view, depth, inner)

    # ---- reductions ----

    def _reduction_loop(self, view: View, depth: int, inner: Next) -> Statement:
        loop = self.loops[depth]
        merged = self._merged(view, depth, inner)
        if merged is not None:
            return merged
        stride = fixed(loop.stride)
        in_lanes = stride > 1 and stride == fixed(full_tile(self.nest.tree, self.stage, loop.axis))
        if in_lanes:
            return aligned_reduction(self, view, depth, lambda v: self._in_lanes(v, depth, inner), inner)
        return self.clamped(view, depth, inner)

    def _in_lanes(self, view: View, depth: int, inner: Next) -> Statement:
        loop = self.loops[depth]
        if self.names.multiple(view.places[self.stage.stage, loop.axis].size) % fixed(loop.stride):
            return self._peeled(view, depth, inner)
        return self.clamped(view, depth, inner)

    def _merged(self, view: View, depth: int, inner: Next) -> Statement | None:
        """A reduction loop around its own unrolled piece is one loop over all points, unrolled with a remainder."""
        loop = self.loops[depth]
        if depth + 1 == len(self.loops) or loop.kind in BOUND:
            return None
        piece = self.loops[depth + 1]
        if piece.axis != loop.axis or piece.kind is not LoopKind.UNROLL or self.full[depth + 1] or piece.stride != 1:
            return None
        if any((self.stage.stage, x.name) in self.nest.tree.attached for x in (loop, piece)):
            return None
        place = view.places[self.stage.stage, loop.axis]
        variable = self.names.variable(loop.name, fixed(loop.extent) * fixed(loop.stride))
        below = view.opening(loop.name, variable)
        below = below.moved(self.stage.stage, loop.axis, AxisRange(plus(place.position, variable), number(1)))
        near = tuple(prefetch_next(self.nest.body, self.names, self.stage, loop, fixed(piece.extent), view, variable))
        label = f"{loop.name}+{piece.name}"
        body = self.with_attached(below, loop, lambda v: inner(v, depth + 2))
        body = Block((*near, body)) if near else body
        return For(variable.name, place.size, body, unroll=fixed(piece.extent), label=label)

    def _peeled(self, view: View, depth: int, inner: Next) -> Statement:
        """A reduction in lanes over a ragged extent: full trips without masks, then one trip with them."""
        loop = self.loops[depth]
        place = view.places[self.stage.stage, loop.axis]
        stride = fixed(loop.stride)
        count = floor_div(place.size, stride, self.names.bounds)
        rest = plus(place.size, times(count, -stride))

        def trips(extent: Expr, first: Expr, size: Expr, tail: bool) -> Statement:
            variable = self.names.variable(loop.name, fixed(loop.extent))
            trip = plus(first, variable)
            position = plus(place.position, times(trip, stride))
            below = replace(view.opening(loop.name, trip), tail=tail or view.tail)
            below = below.moved(self.stage.stage, loop.axis, AxisRange(position, size))
            body = self.with_attached(below, loop, lambda v: inner(v, depth + 1))
            return For(variable.name, extent, body, label=loop.name)

        main = trips(count, number(0), number(stride), False)
        last = trips(smaller(number(1), rest), count, rest, True)
        return last if known(count) == 0 else Block((main, last))

    def _accumulate(self, view: View, depth: int) -> Statement:
        """Registers for the tile: set to the identity, accumulated by the reduction loops, then written to the storage."""
        tile = [x for d, x in enumerate(self.loops) if d >= depth and not self.reduces[d]]
        lanes = [x for d, x in enumerate(self.loops) if d >= depth and self.reduces[d] and self.full[d]]
        lanes = [x for x in lanes if not self.threads.binds(x)]
        held = [x for x in (*tile, *lanes) if not self.threads.binds(x)]  # a thread has registers of its own
        for loop in tile:
            if self.threads.strides(view, loop):
                raise wrong(
                    self.nest.tree, loop.name, f"the threads of {loop.name} have several points to sum up in turns",
                    expected="a thread for each point of the tile", advice="give each thread more points: unroll some",
                )  # fmt: skip
        tensor = self.definition.tensors[0]
        shape = tuple(fixed(x.extent) for x in held)
        combiner = self.definition.combiner or ""
        zero = identity(combiner, tensor.dtype)

        def element(v: View) -> tuple[Expr, ...]:
            return tuple(v.variables[x.name] for x in held)

        def updating(registers: Buffer) -> Next:
            def update(v: View, d: int) -> Statement:
                if d < len(self.loops):
                    return self.loop(v, d, update)
                value = self.nest.body.value(self.stage, v, otherwise=zero)
                return Update(registers.name, element(v), combiner, value)

            return update

        def finish(sums: Buffer) -> Statement:
            return self.alone(view, tile, lambda v: self._finish(v, sums, element, lanes, combiner, zero))

        cut = cut_of(self, depth, held)
        if cut is not None:
            return summed_apart(self, view, depth, cut, held, updating, finish)
        registers = Buffer(self.names.fresh(f"{tensor.name}.acc"), tensor.dtype, shape, Scope.REGISTER, padded=True)
        update = updating(registers)
        plain = replace(view, edge=False, tail=False)
        start = self.alone(plain, (*tile, *lanes), lambda v: Store(registers.name, element(v), zero))
        middle = update(view, depth) if depth == len(self.loops) else self.loop(view, depth, update)
        middle = where_asked(self, view, depth, tile, middle)
        return Allocate(registers, Block((start, middle, finish(registers))))

    def _finish(
        self,
        view: View,
        registers: Buffer,
        element: Callable[[View], tuple[Expr, ...]],
        lanes: Sequence[Loop],
        combiner: str,
        zero: Const,
    ) -> Statement:
        """Writes one accumulated element, first combining its lanes and threads; later trips of reduction loops outside add
        to it."""
        crossing = [x for x, reduces in zip(self.loops, self.reduces, strict=True) if reduces and self.threads.binds(x)]
        if not lanes and not crossing:
            return self._write(view, Read(registers.name, element(view), registers.dtype), combiner)
        total = Buffer(self.names.fresh("total"), registers.dtype, (), Scope.REGISTER, padded=True)
        found = Read(total.name, (), total.dtype)
        if crossing:
            parts = fixed(parts_of(self.nest.tree, self.stage, self.threads.team.size, self.threads.warp))
            cross = CrossThreads(self.names, self.threads, total, combiner, zero, parts)
            cross.check(self.nest.tree, view, crossing)
            leader = replace(view, only=both(view.only, self.threads.leads(view, crossing)))
            write = self._write(leader, found, combiner)
            write = cross.combine(view, crossing, write)
        else:
            write = self._write(view, found, combiner)
        if not lanes:
            own = Read(registers.name, element(view), registers.dtype)
            return Allocate(total, Block((Store(total.name, (), own), write)))
        plain = replace(view, edge=False, tail=False)
        vectors = [x for x in lanes if x.kind is LoopKind.VECTOR]
        shape = tuple(fixed(x.extent) for x in vectors)
        row = Buffer(self.names.fresh("row"), registers.dtype, shape, Scope.REGISTER, padded=True)

        def lane(v: View) -> tuple[Expr, ...]:
            return tuple(v.variables[x.name] for x in vectors)

        def combine(v: View) -> Statement:
            return Update(row.name, lane(v), combiner, Read(registers.name, element(v), registers.dtype))

        steps = (
            self.alone(plain, vectors, lambda v: Store(row.name, lane(v), zero)),
            self.alone(plain, lanes, combine),
            Store(total.name, (), zero),
            self.alone(plain, vectors, lambda v: Update(total.name, (), combiner, Read(row.name, lane(v), row.dtype))),
            write,
        )
        return Allocate(row, Allocate(total, Block(steps)))

    def _write(self, view: View, value: Expr, combiner: str) -> Statement:
        target, indices = self.nest.body.place(self.stage, 0, view)
        store: Statement = Store(target.name, indices, value)
        first = self.first_trip(view)
        if first is not None:
            store = If(first, store, Update(target.name, indices, combiner, value))
        return stored(target, view, store)

    def first_trip(self, view: View) -> Expr | None:
        """Says whether this is the first trip of the reduction loops outside of the accumulation; None without such loops."""
        first: Expr | None = None
        for loop, reduces in zip(self.loops[: self.accumulate_at or 0], self.reduces, strict=False):
            if reduces:
                first = both(first, Op("eq", (view.variables[loop.name], number(0)), boolean))
        return first

    def _accumulate_in_storage(self, view: View, depth: int) -> Statement:
        """The storage itself is set to the identity, then updated point by point."""
        combiner = self.definition.combiner or ""
        zero = identity(combiner, self.definition.tensors[0].dtype)

        def set_identity(v: View) -> Statement:
            target, indices = self.nest.body.place(self.stage, 0, v)
            return stored(target, v, Store(target.name, indices, zero))

        def update(v: View, d: int) -> Statement:
            if d == self.tile_at and v.edge is None:
                v = replace(v, edge=True)
            if d < len(self.loops):
                return self.loop(v, d, update)
            target, indices = self.nest.body.place(self.stage, 0, v)
            value = self.nest.body.value(self.stage, v, otherwise=zero)
            return stored(target, v, Update(target.name, indices, combiner, value))

        inside = [x for d, x in enumerate(self.loops) if d >= depth and not self.reduces[d]]
        start = self.alone(replace(view, edge=True), inside, set_identity)
        return Block(
            (start, where_asked(self, replace(view, edge=True), depth, inside, self.loop(view, depth, update)))
        )
