"""How the loops of a stage run: in full or not, where values are held in registers, where the tile begins.

A *depth* is the number of loops outside. Nothing here depends on extents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...tensor.indices.bounds import Bound
from ...tensor.indices.scatter import Scattered, scattered
from ...tensor.program import Stage
from ...tensor.scan import InStep, written_in_step
from ..loops import LoopKind, LoopTree, StageLoops, is_full, is_reduction
from ..useful import ending, ends_early

_ALONE = (LoopKind.SERIAL, LoopKind.UNROLL, LoopKind.VECTOR)  # loops whose trips one thread runs


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """Facts about the loops of a stage.

    full: of each loop whether it runs all its trips in the code (`is_full`). reduces: whether it is one of a reduction.
    first_reduction: the depth of the outermost reduction loop; None without any.
    accumulate_at: the depth from which on values are held in registers: set or loaded before, stored after. Of a reduction
    the outermost one of its loops with only such loops and full pieces inside, of a fold the outermost piece of the ordered
    axis with only such pieces and full ones inside. None: each trip works in the storage, or there is no reduction.
    tile_at: the depth of the first full spatial piece, or of the accumulation that runs over the register tile; None for folds.
    in_step: tensors of a fold, by number, of which each step writes its own elements alone (tensor/scan.py).
    scattered: the places at which a reduction combines its terms (tensor/indices/scatter.py). None: it has none, or runs over
    all points of its axes all the same, as on a GPU.
    aside: loops that nobody runs: over axes that only tensors have which are written in step along them, and over scattered
    axes inside of the reduction.
    stored: of each tensor whether it is stored at all; state that is held in registers and that nobody reads is not.
    ends: of each loop the bounds at which it ends before its axis does (useful.py).
    """

    full: tuple[bool, ...]
    reduces: tuple[bool, ...]
    first_reduction: int | None
    accumulate_at: int | None
    tile_at: int | None
    in_step: Mapping[int, InStep]
    scattered: Scattered | None
    aside: frozenset[str]
    stored: tuple[bool, ...]
    ends: tuple[tuple[Bound, ...], ...]


def loop_plan(tree: LoopTree, stage: StageLoops, gpu: bool, bounds: tuple[Bound, ...]) -> LoopPlan:
    """The facts about the loops of a stage. `bounds`: of the points that are of use."""
    definition = tree.definition(stage.stage)
    full = tuple(is_full(tree, stage, loop) for loop in stage.loops)
    reduces = tuple(is_reduction(tree, stage.stage, loop.axis) for loop in stage.loops)
    first = next((depth for depth, reduction in enumerate(reduces) if reduction), None)
    in_step = _in_step(definition, stage)
    aside = _aside(definition, stage, in_step)
    placed = None
    if definition.fold is None and first is not None and not gpu:
        placed, aside = _placed(tree, stage, first)
    accumulate_at = tile_at = None
    if placed is None and definition.fold is None:
        accumulate_at = _accumulation_start(full, reduces)
        tile_at = _tile_start(full, reduces, accumulate_at)
    elif definition.fold is not None and not gpu:
        accumulate_at = _hold_start(definition, stage, full, reduces, in_step)
    unseen = definition.fold is not None and accumulate_at is not None and accumulate_at == first
    stored = tuple(not unseen or n in in_step or _is_read(tree, definition, n) for n in range(len(definition.tensors)))
    adds_on = definition.fold is None and accumulate_at is None  # results are set before the first term
    ends = tuple(
        ending(definition, bounds, loop.axis, adds_on and any(reduces[:depth]))
        if ends_early(stage, loop) is not None
        else ()
        for depth, loop in enumerate(stage.loops)
    )
    return LoopPlan(full, reduces, first, accumulate_at, tile_at, in_step, placed, aside, stored, ends)


def _accumulation_start(full: tuple[bool, ...], reduces: tuple[bool, ...]) -> int | None:
    """The outermost reduction loop with only reduction loops and full pieces inside; None without such a loop."""
    start = None
    for depth in reversed(range(len(full))):
        if reduces[depth]:
            start = depth
        elif not full[depth]:
            break
    return start


def _hold_start(
    definition: Stage,
    stage: StageLoops,
    full: tuple[bool, ...],
    reduces: tuple[bool, ...],
    in_step: Mapping[int, InStep],
) -> int | None:
    """The outermost piece of the ordered axis with only such pieces and full ones inside; loops that nobody runs aside."""
    states = [number for number in range(len(definition.tensors)) if number not in in_step]
    moving = {axis.name for number in states for axis in definition.axes_of(number)}
    start = None
    for depth in reversed(range(len(full))):
        if reduces[depth]:
            start = depth
        elif stage.loops[depth].axis in moving and not full[depth]:
            break
    return start


def _tile_start(full: tuple[bool, ...], reduces: tuple[bool, ...], accumulate_at: int | None) -> int | None:
    depths = [depth for depth in range(len(full)) if full[depth] and not reduces[depth]]
    if not depths:
        return None
    return depths[0] if accumulate_at is None else min(depths[0], accumulate_at)


def _in_step(definition: Stage, stage: StageLoops) -> dict[int, InStep]:
    """Tensors that are written in step, unless their axis is spread over threads."""
    found = {}
    for number in range(len(definition.tensors)):
        place = written_in_step(definition, number)
        if place is not None and all(loop.kind in _ALONE for loop in stage.pieces(place.axis)):
            found[number] = place
    return found


def common_axes(definition: Stage) -> frozenset[str]:
    """The axes that every tensor of a fold has, the ordered one among them."""
    fewest = min(len(definition.axes_of(number)) for number in range(len(definition.tensors)))
    return frozenset(axis.name for axis in (*definition.axes[:fewest], *definition.reduction))


def _aside(definition: Stage, stage: StageLoops, in_step: Mapping[int, InStep]) -> frozenset[str]:
    if not in_step:
        return frozenset()
    run = set(common_axes(definition))
    for number in range(len(definition.tensors)):
        alone = {in_step[number].axis} if number in in_step else set()
        run |= {axis.name for axis in definition.axes_of(number)} - alone
    axes = {place.axis for place in in_step.values()} - run
    return frozenset(loop.name for loop in stage.loops if loop.axis in axes)


def _placed(tree: LoopTree, stage: StageLoops, first: int) -> tuple[Scattered | None, frozenset[str]]:
    """The places of a reduction's terms, and its loops that nobody runs then; none where a stage stands in one of these."""
    found = scattered(tree.definition(stage.stage))
    if found is None:
        return None, frozenset()
    aside = frozenset(loop.name for loop in stage.loops[first:] if loop.axis in found.places)
    if any((stage.stage, name) in tree.attached for name in aside):
        return None, frozenset()
    return found, aside


def _is_read(tree: LoopTree, definition: Stage, number: int) -> bool:
    """Says whether somebody beside the stage itself sees a tensor."""
    name = definition.tensors[number].name
    return name in tree.program.outputs or any(reader != definition for reader in tree.program.consumers[name])
