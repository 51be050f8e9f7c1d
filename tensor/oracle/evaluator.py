"""Evaluates the stages of one program on one set of inputs. reference.py is the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..dtype import accumulator
from ..expr import Expr, Read, variables
from ..indices.scatter import scattered
from ..program import Axis, Program, Stage, Tensor
from ..scan import InStep, written_in_step
from .blocks import BlockBox, accumulate, boxes, finished, reduced, sizes_of
from .contract import contract, factor_groups
from .evaluate import EvaluationScope, Pair, combine_errors, evaluate_expr, from_memory, multiply, store_type
from .roundings import Array, literal_error, lost_below, rounding
from .scatter import placed

Groups = tuple[tuple[Expr, ...], tuple[Expr, ...]]

# The parts of a matrix product may be this many times a block: they are made once, not at every operation.
_PARTS_TO_BLOCK = 8


class Evaluator:
    """Tensors of one program, each evaluated at most once: whole, or at the points that were asked for.

    Args:
        inputs: arrays that fit the program's inputs.
        errors: whether pairs carry error bounds.
    """

    def __init__(self, program: Program, inputs: Sequence[Array], errors: bool) -> None:
        self._program = program
        self._errors = errors and any(tensor.dtype.is_float for tensor in program.tensors.values())  # else all is exact
        self._whole: dict[str, Pair] = {}  # inputs as they lie in memory; what is read of them is converted
        self._points: dict[str, tuple[NDArray[np.int64], Array, Array | None]] = {}
        for item, array in zip(program.inputs, inputs, strict=True):
            self._whole[item.tensor.name] = array, None
        self._inputs = {item.tensor.name: item.tensor.dtype for item in program.inputs}
        for table in program.tables:
            dtype = table.tensor.dtype
            values = np.array(table.values, dtype=store_type(dtype)).reshape(table.tensor.shape)
            self._whole[table.tensor.name] = values, literal_error(values, dtype) if errors else None

    def whole(self, name: str) -> Pair:
        """All elements of a tensor."""
        needed = {name}
        for stage in reversed(self._program.stages):
            if any(tensor.name in needed and tensor.name not in self._whole for tensor in stage.tensors):
                needed.update(read.tensor for read in stage.reads())
        for stage in self._program.stages:
            if any(tensor.name in needed and tensor.name not in self._whole for tensor in stage.tensors):
                self._evaluate_stage(stage)
        return self._whole[name]

    def fetch(self, name: str, indices: Sequence[Array]) -> Pair:
        """Elements of a tensor at index arrays that broadcast; only these are evaluated, unless they are most of it."""
        shape = self._program.tensors[name].shape
        producer = self._program.producers.get(name)
        if name in self._whole or not shape or (producer is not None and scattered(producer) is not None):
            self.whole(name)
            return self._gather(name, indices)
        flat = np.ravel_multi_index(np.broadcast_arrays(*_clipped(indices, shape)), shape)
        wanted, inverse = np.unique(flat, return_inverse=True)
        if wanted.size * 2 >= prod(shape):
            self.whole(name)
            return self._gather(name, indices)
        value, error = self._known_points(name, wanted)
        inverse = inverse.reshape(flat.shape)
        return value[inverse], None if error is None else error[inverse]

    # whole stages

    def _evaluate_stage(self, stage: Stage) -> None:
        if stage.fold:
            pairs = self._whole_fold(stage)
        else:
            pairs = [self._whole_tensor(stage, number) for number in range(len(stage.tensors))]
        for tensor, pair in zip(stage.tensors, pairs, strict=True):
            self._whole[tensor.name] = pair

    def _whole_tensor(self, stage: Stage, number: int) -> Pair:
        found = scattered(stage)
        pair = None if found is None else placed(stage, found, self._mesh, self._errors)
        if pair is not None:
            return pair[0], finished(*pair, stage)
        groups = factor_groups(stage)
        axes, spatial = stage.all_axes, len(stage.axes)
        value, error = self._empty(stage.tensors[number])
        cost = prod if groups is None else _cost_of_parts(groups, axes, spatial)
        for box in boxes([axis.extent for axis in axes], cost):
            scope = self._mesh(axes, box)
            if groups is not None:
                part = self._contracted(groups, stage, scope, sizes_of(box))
            elif stage.reduction:
                pair = evaluate_expr(stage.bodies[number], scope)
                asked = self._asked(stage, lambda box=box: self._mesh(axes, box))  # type: ignore[misc]
                part = reduced(pair, stage, sizes_of(box), self._errors, asked)
            else:
                part = evaluate_expr(stage.bodies[number], scope)
            place = tuple(slice(*ends) for ends in box[:spatial])
            accumulate(value, error, place, part, stage.combiner, all(start == 0 for start, _ in box[spatial:]))
        return value, finished(value, error, stage)

    def _contracted(self, groups: Groups, stage: Stage, scope: EvaluationScope, sizes: list[int]) -> Pair:
        """The sum over one block of the product of two groups of factors."""
        dtype, spatial = stage.bodies[0].dtype, len(stage.axes)
        (a, ea), (b, eb) = (self._product(group, scope, len(sizes)) for group in groups)
        value = contract(a, b, sizes, spatial)
        if not self._errors or (not dtype.is_float and ea is None and eb is None):
            return value, None
        a, b = np.abs(a), np.abs(b)
        passed = combine_errors(
            None if ea is None else contract(ea, b, sizes, spatial),
            None if eb is None else contract(a, eb, sizes, spatial),
        )
        if not dtype.is_float:
            return value, passed
        magnitude = contract(a, b, sizes, spatial)
        own = rounding(magnitude, dtype) + rounding(magnitude, accumulator(dtype))  # of each product, of each sum
        some = magnitude > 0 if passed is None else (magnitude > 0) | (passed > 0)
        return value, combine_errors(own + lost_below(dtype) * prod(sizes[spatial:]) * some, passed)

    def _asked(self, stage: Stage, scope: Callable[[], EvaluationScope]) -> Pair | None:
        """The terms of a sum of narrow floats as the program's own arithmetic gives them; None where it is told otherwise."""
        (body,) = stage.bodies
        wide = accumulator(body.dtype) == body.dtype
        if not self._errors or stage.combiner != "sum" or wide or isinstance(body, Read):
            return None
        return evaluate_expr(body, replace(scope(), asked=True))

    def _product(self, group: tuple[Expr, ...], scope: EvaluationScope, rank: int) -> Pair:
        total = evaluate_expr(group[0], scope)
        for factor in group[1:]:
            total = multiply(total, evaluate_expr(factor, scope), factor.dtype, self._errors)
        value, error = total
        shape = (1,) * (rank - value.ndim) + value.shape
        return value.reshape(shape), None if error is None else np.broadcast_to(error, value.shape).reshape(shape)

    def _whole_fold(self, stage: Stage) -> list[Pair]:
        """All tensors of a fold. Of those that are written in step each step computes no more than it writes."""
        results = [self._empty(tensor) for tensor in stage.tensors]
        in_step = {n: found for n in range(len(results)) if (found := written_in_step(stage, n)) is not None}
        for box in boxes([axis.extent for axis in stage.axes], _cost_of_step(stage, in_step)):
            sizes = sizes_of(box)
            shapes = {
                number: tuple(size if d < len(stage.axes_of(number)) else 1 for d, size in enumerate(sizes))
                for number in range(len(results))
                if number not in in_step
            }

            def write(scope: EvaluationScope, box: BlockBox = box) -> None:
                for number, found in in_step.items():
                    axis, at = _dimension(stage, found), int(evaluate_expr(found.place, scope)[0])
                    if box[axis][0] <= at < box[axis][1]:
                        here = (*box[:axis], (at, at + 1), *box[axis + 1 :])
                        _put(results[number], evaluate_expr(found.value, scope), stage, number, here)

            states = self._run_fold(stage, shapes, lambda step, box=box: self._mesh(stage.axes, box, step), write)  # type: ignore[misc]
            for number in shapes:
                _put(results[number], states[stage.tensors[number].name], stage, number, box)
        return list(results)

    def _run_fold(
        self,
        stage: Stage,
        shapes: Mapping[int, tuple[int, ...]],
        scope_at: Callable[[dict[str, int]], EvaluationScope],
        write: Callable[[EvaluationScope], None] | None = None,
    ) -> dict[str, Pair]:
        """The last values of some tensors of a fold (the keys of `shapes`), in the order of its steps. `write`: what else is
        done at each."""
        fold, (ordered,) = stage.fold, stage.reduction
        assert fold is not None
        states: dict[str, Pair] = {}
        for number, shape in shapes.items():
            tensor = stage.tensors[number]
            start = np.full(shape, fold.initial[number].value, dtype=store_type(tensor.dtype))
            states[tensor.name] = start, np.zeros(shape) if self._errors else None
        for step in range(ordered.extent):
            scope = scope_at({ordered.name: step})
            scope.own, scope.locals = states, dict(fold.locals)
            if write is not None:
                write(scope)
            new: dict[str, Pair] = {}
            for number, shape in shapes.items():
                value, error = evaluate_expr(stage.bodies[number], scope)
                error = None if error is None else np.broadcast_to(error, shape)
                new[stage.tensors[number].name] = np.broadcast_to(value, shape), error
            states = new
        return states

    def _empty(self, tensor: Tensor) -> tuple[Array, Array | None]:
        value = np.empty(tensor.shape, dtype=store_type(tensor.dtype))
        return value, np.zeros(tensor.shape) if self._errors else None

    def _mesh(self, axes: Sequence[Axis], box: BlockBox, fixed: Mapping[str, int] | None = None) -> EvaluationScope:
        """All points of a box as an open mesh; `fixed` axes have one value and no dimension."""
        rank = len(axes)
        values: dict[str, Array] = {name: np.asarray(v) for name, v in (fixed or {}).items()}
        dimensions: dict[str, tuple[int, int, int]] = {}
        for d, (axis, (start, end)) in enumerate(zip(axes, box, strict=True)):
            values[axis.name] = np.arange(start, end).reshape([-1 if e == d else 1 for e in range(rank)])
            dimensions[axis.name] = d, start, end
        return EvaluationScope(values, self._gather, self._window, dimensions, rank, fixed or {}, errors=self._errors)

    def _window(self, name: str, parts: Sequence[slice | int]) -> Pair | None:
        for part, size in zip(parts, self._whole[name][0].shape, strict=True):
            if (part.stop if isinstance(part, slice) else part + 1) > size or (isinstance(part, int) and part < 0):
                return None  # under a guard; `_gather` clips
        return self._part(name, tuple(parts))

    def _gather(self, name: str, indices: Sequence[Array]) -> Pair:
        return self._part(name, _clipped(indices, self._whole[name][0].shape))

    def _part(self, name: str, place: tuple[slice | int | Array, ...]) -> Pair:
        value, error = self._whole[name]
        part = np.asarray(value[place])
        if name in self._inputs:
            return from_memory(part, self._inputs[name]), None
        return part, None if error is None else np.asarray(error[place])

    # single points

    def _known_points(self, name: str, wanted: NDArray[np.int64]) -> Pair:
        """Elements at sorted flat positions; what is new is evaluated and kept."""
        tensor = self._program.tensors[name]
        known, values, errors = self._points.get(
            name, (np.empty(0, np.int64), *self._empty(Tensor(name, tensor.dtype, (0,))))
        )
        new = np.setdiff1d(wanted, known, assume_unique=True)
        if new.size:
            value, error = self._at_points(name, new)
            order = np.argsort(np.concatenate([known, new]), kind="stable")
            known = np.concatenate([known, new])[order]
            values = np.concatenate([values, value])[order]
            if errors is not None:
                errors = np.concatenate([errors, np.zeros(new.size) if error is None else error])[order]
            self._points[name] = known, values, errors
        place = np.searchsorted(known, wanted)
        return values[place], None if errors is None else errors[place]

    def _at_points(self, name: str, flat: NDArray[np.int64]) -> Pair:
        stage = self._program.producers[name]
        number = [tensor.name for tensor in stage.tensors].index(name)
        axes = stage.axes_of(number)
        value, error = self._empty(Tensor(name, stage.tensors[number].dtype, flat.shape))
        places = np.unravel_index(flat, tuple(axis.extent for axis in axes))
        coordinates = {axis.name: np.asarray(place) for axis, place in zip(axes, places, strict=True)}
        extents = [flat.size] if stage.fold else [flat.size, *(axis.extent for axis in stage.reduction)]
        for box in boxes(extents):
            block = {axis: place[slice(*box[0])] for axis, place in coordinates.items()}
            part = self._fold_at(stage, number, block) if stage.fold else self._stage_at(stage, number, block, box)
            first = all(start == 0 for start, _ in box[1:])
            accumulate(value, error, (slice(*box[0]),), part, None if stage.fold else stage.combiner, first)
        return value, error if stage.fold else finished(value, error, stage)

    def _stage_at(self, stage: Stage, number: int, coordinates: Mapping[str, Array], box: BlockBox) -> Pair:
        rank = len(box)
        axes = {name: place.reshape([-1] + [1] * (rank - 1)) for name, place in coordinates.items()}
        for d, (axis, (start, end)) in enumerate(zip(stage.reduction, box[1:], strict=True), 1):
            axes[axis.name] = np.arange(start, end).reshape([-1 if e == d else 1 for e in range(rank)])
        pair = evaluate_expr(stage.bodies[number], EvaluationScope(axes, self.fetch, errors=self._errors))
        if not stage.reduction:
            return pair
        asked = self._asked(stage, lambda: EvaluationScope(axes, self.fetch, errors=True))
        return reduced(pair, stage, sizes_of(box), self._errors, asked)

    def _has_fold_behind(self, name: str) -> bool:
        pending, seen = [name], {name}
        while pending:
            tensor = pending.pop()
            producer = None if tensor in self._whole else self._program.producers.get(tensor)
            if producer is not None:
                if producer.fold is not None:
                    return True
                more = {read.tensor for read in producer.reads()} - seen
                pending += more
                seen |= more
        return False

    def _fold_at(self, stage: Stage, number: int, coordinates: Mapping[str, Array]) -> Pair:
        """A tensor of a fold at points; with it run those that keep no more axes than it, on which alone it depends.

        What another fold is behind is evaluated whole before, if each step reads others of its points: they would be that
        whole fold for each step.
        """
        moving = {read.tensor for read in stage.reads() if stage.reduction[0].name in variables(read)}
        for name in moving:
            if self._has_fold_behind(name):
                self.whole(name)
        count = next(iter(coordinates.values())).size
        rank = len(stage.axes_of(number))
        shapes = {n: (count,) for n in range(len(stage.tensors)) if len(stage.axes_of(n)) <= rank}

        def scope_at(step: dict[str, int]) -> EvaluationScope:
            return EvaluationScope(
                {**coordinates, **{n: np.asarray(v) for n, v in step.items()}}, self.fetch, errors=self._errors
            )

        return self._run_fold(stage, shapes, scope_at)[stage.tensors[number].name]


def _dimension(stage: Stage, found: InStep) -> int:
    return [axis.name for axis in stage.axes].index(found.axis)


def _put(result: Pair, new: Pair, stage: Stage, number: int, box: BlockBox) -> None:
    """Writes the points of a box into a tensor of a fold, whose axes are the first ones of the stage's in some order."""
    order = [stage.axes.index(axis) for axis in stage.axes_of(number)]
    sizes = sizes_of(box)
    place, shape = tuple(slice(*box[d]) for d in order), [sizes[d] for d in range(len(order))]
    for into, values in zip(result, new, strict=True):
        if into is not None and values is not None:
            whole = np.broadcast_to(values, [*shape, *(1 for _ in sizes[len(order) :])])
            into[place] = whole.reshape(shape).transpose(order)


def _cost_of_step(stage: Stage, in_step: Mapping[int, InStep]) -> Callable[[Sequence[int]], int]:
    """Points that a step computes of the tensor of which it computes most."""
    skipped = [_dimension(stage, in_step[n]) if n in in_step else None for n in range(len(stage.tensors))]
    counted = [[d for d in range(len(stage.axes_of(n))) if d != skip] for n, skip in enumerate(skipped)]
    return lambda sizes: max(prod(sizes[d] for d in dimensions) for dimensions in counted)


def _clipped(indices: Sequence[Array], shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Index arrays inside the tensor: only what no guard lets through was outside."""
    return tuple(np.clip(index, 0, size - 1) for index, size in zip(indices, shape, strict=True))


def _cost_of_parts(groups: Groups, axes: Sequence[Axis], spatial: int) -> Callable[[Sequence[int]], int]:
    used = [frozenset(name for factor in group for name in variables(factor)) for group in groups]

    def cost(sizes: Sequence[int]) -> int:
        parts = [prod(s for s, a in zip(sizes, axes, strict=True) if a.name in names) for names in used]
        return max(*parts, prod(sizes[:spatial])) // _PARTS_TO_BLOCK

    return cost
