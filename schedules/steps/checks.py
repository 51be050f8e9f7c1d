"""What all primitives check, and the errors that show the outline with the place marked."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...common.errors import ScheduleError
from ..extents import Extent
from ..loops import Loop, LoopTree, StageLoops, is_full


@dataclass(frozen=True, slots=True)
class Context:
    """Holds what a step may know beside the tree: its number, and the extents of axes in their present life.

    extents: (stage, axis) and (tensor, "#dimension") -> extent, while a template runs; empty when numbers are applied.
    """

    number: int
    extents: dict[tuple[str, str], Extent] = field(default_factory=dict)


def wrong(tree: LoopTree, place: str, problem: str, *, expected: str, advice: str = "") -> ScheduleError:
    """The error that says what is wrong at a stage or loop, with the outline marked there."""
    from ..outline import outline

    return ScheduleError(problem, expected=expected, advice=advice, where=outline(tree, mark=place, note="<-- here"))


def open_stage(tree: LoopTree, loop: str) -> StageLoops:
    """The stage of a loop, whose loops may still be cut and reordered."""
    stage = tree.owner(loop)
    if holds_stages(tree, stage):
        raise wrong(
            tree, loop, f"{stage.stage} has stages attached to its loops",
            expected="split and reorder before anything is attached", advice="move this step before compute_at",
        )  # fmt: skip
    return stage


def loop_of(tree: LoopTree, stage: StageLoops, name: str) -> Loop:
    """A loop of this very stage."""
    try:
        return stage.loop(name)
    except KeyError:
        raise wrong(
            tree, name, f"{name} is no loop of {stage.stage}", expected="loops of one stage: "
            + ", ".join(loop.name for loop in stage.loops)
        ) from None  # fmt: skip


def attached_to(tree: LoopTree, stage: str) -> tuple[StageLoops, ...]:
    """The stages that run inside of the loops of a stage."""
    loops = tree.loops_of(stage).loops if tree.attached else ()
    names = [name for loop in loops for name in tree.attached.get((stage, loop.name), ())]
    return tuple(tree.by_stage[name] for name in sorted(names, key=tree.places.__getitem__))


def holds_stages(tree: LoopTree, stage: StageLoops) -> bool:
    """Says whether any stage runs inside of the loops of this one."""
    return bool(tree.attached) and any((stage.stage, loop.name) in tree.attached for loop in stage.loops)


def check_tile(tree: LoopTree, stage: StageLoops) -> None:
    """Checks that no stage is attached inside of a full piece: there are no loops in a register tile."""
    inside = [place for place, loop in enumerate(stage.loops) if (stage.stage, loop.name) in tree.attached]
    for loop in stage.loops[: max(inside, default=-1) + 1]:
        if is_full(tree, stage, loop):
            raise wrong(
                tree, loop.name, "nothing runs inside a register tile",
                expected="a loop outside of all unrolled and vectorized ones", advice="attach at a loop around it",
            )  # fmt: skip
