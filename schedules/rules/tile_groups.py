"""What is computed tile by tile: a stage, and the producers of which each tile needs a bounded piece, with a border around.

A chain of stencils is such a group, and so are filters after filters. Producers run inside of the tiles of the last stage;
points near an edge are computed for both tiles that need them (overlapped tiling: Ragan-Kelley et al. 2013, Halide).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod

from ...common.remembered import remembered
from ...tensor.program import Program, Stage
from ..access import is_anchor, moves_data_only, operations_of, points_of, reads_of, visits
from ..boxes import BoxAxis, identity_forms, needed_boxes, whole_axis
from ..extents import Extent
from .members import members_of

WINDOW_AT_MOST = 128  # points of a reduction that a group takes in
WHOLE_AT_MOST = 16  # points of an axis that each tile needs all of
MOSTLY_OUTSIDE = 4  # times as many points as an axis has, of which the tiles of a root together would cover that
WORTH_KEEPING = 2  # operations: what has fewer is computed again at each use

Forms = dict[str, BoxAxis]


@dataclass(frozen=True, slots=True)
class TileGroup:
    """A root with the producers that run inside of its tiles, consumers first, and what each of them covers of a tile."""

    root: str
    members: tuple[str, ...]
    forms: dict[str, Forms]

    def halo(self, axis: str) -> int:
        """Returns how many points beyond a tile the members need along an axis of the root, at most."""
        boxes = [box for name in self.members for box in self.forms[name].values()]
        return max((box.high - box.low for box in boxes if axis in {term for term, _ in box.terms}), default=0)

    def moves(self, axis: str) -> bool:
        """Tells whether tiles along an axis of the root need other points of some member."""
        return any(
            axis in {term for term, _ in box.terms} for name in self.members for box in self.forms[name].values()
        )

    def is_shared(self, axis: str) -> bool:
        """Tells whether some members need the same points wherever a tile lies along an axis of the root, and others do not."""
        return self.moves(axis) and not all(
            any(axis in {term for term, _ in box.terms} for box in self.forms[name].values()) for name in self.members
        )

    def slides(self, stage: Stage, axis: str) -> bool:
        """Tells whether blocks along an axis of the root need rows of a member again that the block before has needed."""
        moved = {name: box for name, box in self.forms[stage.name].items() if axis in {term for term, _ in box.terms}}
        rows = {axes[-1].name for n in range(len(stage.tensors)) if (axes := stage.axes_of(n))}
        return (
            bool(moved)
            and rows.isdisjoint(moved)
            and all(
                box.is_plain and len(box.terms) == 1 and box.high - box.low + 1 >= box.terms[0][1]
                for box in moved.values()
            )
        )

    def same_points(self, stage: Stage) -> bool:
        """Tells whether each point of the root needs one point of a member, at the same place."""
        boxes = self._spatial(stage)
        return all(b.low == b.high == 0 and b.is_plain and [c for _, c in b.terms] == [1] for b in boxes)

    def _spatial(self, stage: Stage) -> list[BoxAxis]:
        return [self.forms[stage.name][axis.name] for axis in stage.axes if axis.extent > 1]

    @property
    def has_halo(self) -> bool:
        """Says whether some member has points that several tiles need."""
        return any(box.terms and box.high > box.low for name in self.members for box in self.forms[name].values())


@remembered
def tile_group(program: Program, root: Stage, taken: AbstractSet[str], widest: int) -> TileGroup | None:
    """Returns the group of a root; None for a stage that is no root of one.

    `taken`: stages that run elsewhere. `widest`: the halo of a member along each axis, at most.
    """
    if (
        root.fold is not None
        or is_anchor(root)
        or not any(a.extent > 1 for a in root.axes)
        or not _has_small_window(root)
    ):
        return None
    forms: dict[str, Forms] = {root.name: _of_root(root)}

    def takes_in(stage: Stage) -> bool:
        own = None if stage.name in taken else _covered(program, root, stage, forms, widest)
        if own is not None:
            forms[stage.name] = own
        return own is not None

    return TileGroup(root.name, tuple(members_of(program, root, takes_in)), forms)


def readers_of(program: Program, stage: Stage) -> tuple[Stage, ...]:
    """Returns the stages that read some tensor of a stage, each once."""
    return tuple(dict.fromkeys(reader for tensor in stage.tensors for reader in program.consumers[tensor.name]))


def _covered(program: Program, root: Stage, stage: Stage, forms: dict[str, Forms], widest: int) -> Forms | None:
    """Returns what a tile needs of a producer; None for one that cannot run inside of it, or that is a small part of what the
    root puts together: most tiles need nothing of it."""
    readers = readers_of(program, stage)
    if any(tensor.name in program.outputs for tensor in stage.tensors) or any(r.name not in forms for r in readers):
        return None
    if stage.fold is not None or is_anchor(stage) or not _has_small_window(stage):
        return None
    boxes = needed_boxes(stage, [(reader, forms[reader.name]) for reader in readers])
    whole: dict[str, Extent] = {axis.name: axis.extent for axis in root.all_axes}
    for axis in stage.axes:
        box = boxes[axis.name]
        if box.terms and not box.extent(whole) <= MOSTLY_OUTSIDE * axis.extent:
            return None
        if (
            len(box.terms) > 1
            or (not box.terms and axis.extent > WHOLE_AT_MOST)
            or (box.terms and box.high - box.low > widest)
        ):
            return None
    return boxes


def _of_root(root: Stage) -> Forms:
    """Returns what a tile of the root is: a piece of each axis, and the whole of its window."""
    return identity_forms(root) | {a.name: whole_axis(a.extent) for a in root.reduction}


def _has_small_window(stage: Stage) -> bool:
    return prod(a.extent for a in stage.reduction) <= WINDOW_AT_MOST


def worth_keeping(program: Program, group: TileGroup) -> frozenset[str]:
    """Returns the pointwise stages of a group that cost more to compute again at each use than to be kept."""
    kept, costs = set(), dict[str, int]()
    for name in (*reversed(group.members), group.root):
        stage = program.stage(name)
        if stage.combiner is not None or len(stage.tensors) > 1 or moves_data_only(stage):
            continue
        # what is not kept is written into its readers, which cost as much more
        costs[name] = operations_of(stage) + sum(costs.get(read.tensor, 0) for read in stage.reads())
        size = points_of(stage)
        reads = sum(visits(read, c, size) for c in program.consumers[name] for read in reads_of(c, name))
        if reads > size and costs[name] >= WORTH_KEEPING:
            kept.add(name)
            del costs[name]
    return frozenset(kept)
