"""Sketches opened once for a program: a loop tree of unknown tunables, and the same tree in the other lives of its extents.

Legality and structure do not depend on tunables (steps/table.py), so steps need not run again for each population: they run
once with unknown numbers, and after that a population is a list of sums, products and comparisons of columns. Equal extents
are one expression and so one array: walks that remember by identity what they did find it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .extents import Condition, Environment, Extent, Sym, as_extent, combine
from .loops import Loop, LoopTree, StageLoops

Change = Callable[[Extent], Extent]


class Opened:
    """A loop tree of unknown numbers.

    `tree`: equal extents in it are the same object. Trees that `at` gives share its program and all that has been found
    out about its structure.
    """

    def __init__(self, tree: LoopTree) -> None:
        self._order: list[Sym] = []  # operands stand before what is made of them
        self._known: dict[tuple[object, ...], Sym] = {}
        self._same: dict[int, tuple[Sym, Sym]] = {}
        self.tree = with_extents(tree, self._one)

    def at(self, numbers: Environment) -> LoopTree:
        """The tree with numbers for all unknowns. KeyError: one that has none."""
        found: dict[int, Extent] = {}

        def number(extent: Extent) -> Extent:
            return found[id(extent)] if isinstance(extent, Sym) else extent

        for node in self._order:
            if node.op == "leaf":
                found[id(node)] = numbers[str(node.args[0])]
            else:
                left, right = (number(a) for a in node.args if not isinstance(a, str))
                found[id(node)] = combine(node.op, left, right)
        return with_extents(self.tree, number)

    def _one(self, extent: Extent) -> Extent:
        """The one object for all extents that are equal to this one."""
        if not isinstance(extent, Sym):
            return extent
        if id(extent) not in self._same:
            operands = tuple(self._one(a) if isinstance(a, Sym) else a for a in extent.args)
            key = (extent.op, *(id(a) if isinstance(a, Sym) else a for a in operands))
            if key not in self._known:
                self._known[key] = Sym(extent.op, operands)  # type: ignore[arg-type]
                self._order.append(self._known[key])
            self._same[id(extent)] = (extent, self._known[key])
        return self._same[id(extent)][1]


def with_extents(tree: LoopTree, change: Change) -> LoopTree:
    """The tree with other extents."""
    stages = tuple(_changed_stage(stage, change) for stage in tree.stages)
    conditions: list[tuple[Condition, str]] = []
    for holds, reason in tree.conditions:
        conditions.append((change(as_extent(holds)), reason))
    return tree.with_numbers(stages, tuple(conditions))


def _changed_stage(stage: StageLoops, change: Change) -> StageLoops:
    loops = tuple(_changed_loop(loop, change) for loop in stage.loops)
    box = {axis: change(extent) for axis, extent in stage.box.items()}
    return replace(stage, loops=loops, box=box, hints=stage.hints.changed(change))


def _changed_loop(loop: Loop, change: Change) -> Loop:
    extent, stride = change(loop.extent), change(loop.stride)
    if extent is loop.extent and stride is loop.stride:
        return loop
    return Loop(loop.name, loop.axis, extent, stride, loop.kind, loop.step, loop.dimension)
