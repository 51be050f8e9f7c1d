"""What is computed row by row: a stage, and the producers of which it needs the values of one row at a time.

A softmax or a normalisation is such a group, and so is a product of a product with something of each row between. Producers
run inside of the rows of the last stage, where what they leave stays in a near cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from ...tensor.expr import Var
from ...tensor.indices.members import member_axes
from ...tensor.program import Program, Stage
from ..access import contiguous_axis, depends, is_anchor
from .members import members_of

RowAxes = tuple[str | None, ...]  # of a stage: which axis is each row axis of the root; None: it has none for one point


def row_group(program: Program, root: Stage, taken: AbstractSet[str], product: bool = False) -> tuple[list[str], int]:
    """Returns the producers that run inside of the rows of a root, consumers first, and how many leading axes make a row.

    More row axes are tried first: the values of a row are then fewest. `product`: one product with reuse must be among them;
    otherwise none is. Rows of such a group are those of all its stages, also where there is one point.
    """
    for shared in range(len(root.axes) - 1, 0, -1):
        if any(a.extent > 1 for a in root.axes[:shared]):
            group = _of_rows(program, root, shared, taken, product)
            if group:
                return group, shared
    return [], 0


def _of_rows(program: Program, root: Stage, shared: int, taken: AbstractSet[str], product: bool) -> list[str]:
    products: list[str] = []

    def may(stage: Stage, own: RowAxes) -> bool:
        if stage.name in taken or (is_anchor(stage) and len(products) == product):
            return False
        if product and None in own:  # two layers of swin_t, EPYC of Zen 3: 3.5 ms by blocks of rows, 2.6 apart
            return False
        if stage.combiner is not None and not is_anchor(stage) and contiguous_axis(program, stage) in own:
            return False  # its vectors lie across rows: in one row most of their lanes would be empty
        if is_anchor(stage):
            products.append(stage.name)
        return True

    members = row_members(program, root, tuple(a.name for a in root.axes[:shared]), may)
    return members if len(products) == product else []


def row_members(
    program: Program, root: Stage, row: RowAxes, may: Callable[[Stage, RowAxes], bool], beside: Sequence[str] = ()
) -> list[str]:
    """Returns the producers all of whose readers run in the row, and which compute each value in one row only, consumers first.

    `may`: whether such a stage, with its row axes, is taken in. Only what the root or a member reads is looked at. `beside`:
    stages with the axes of the root that run in its rows too.
    """
    rows: dict[str, RowAxes] = dict.fromkeys((root.name, *beside), row)

    def takes_in(stage: Stage) -> bool:
        own = _row_of(program, stage, rows)
        if own is None or not may(stage, own):
            return False
        rows[stage.name] = own
        return True

    return members_of(program, root, takes_in)


def _row_of(program: Program, stage: Stage, rows: Mapping[str, RowAxes]) -> RowAxes | None:
    if stage.name in program.outputs or stage.fold is not None or len(stage.tensors) > 1:
        return None
    if any(reader.name not in rows for reader in program.consumers[stage.name]):
        return None
    return row_axes(program, stage, rows)


def inside_rows(
    program: Program, root: Stage, members: list[str], shared: int, beside: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Returns the axes of each member that have more than one point inside of a row of its root. `beside`: as above."""
    row = tuple(a.name for a in root.axes[:shared])
    rows: dict[str, RowAxes] = dict.fromkeys((root.name, *beside), row)
    inside: dict[str, tuple[str, ...]] = {}
    for name in members:
        stage = program.stage(name)
        own = row_axes(program, stage, rows)
        assert own is not None
        rows[name] = own
        inside[name] = tuple(a.name for a in stage.axes if a.extent > 1 and a.name not in own)
    return inside


def row_axes(program: Program, stage: Stage, rows: Mapping[str, RowAxes]) -> RowAxes | None:
    """Tells which axis of a producer is each row axis of the root, if all its readers agree and no row axis is missing.

    A row axis of one point may be: who reads may say 0 instead. None stands for it then. An axis that counts the members of
    joined reductions is no row: one pass computes all of them.
    """
    found: RowAxes | None = None
    for reader in program.consumers[stage.name]:
        units = {axis.name for axis in reader.axes if axis.extent == 1}
        for read in reader.reads():
            if read.tensor != stage.name:
                continue
            own: list[str | None] = []
            for row in rows[reader.name]:
                place = [n for n, index in enumerate(read.indices) if row is not None and index == Var(row)]
                moved = [n for n, index in enumerate(read.indices) if row is not None and depends(read, row)]
                if not moved and (row is None or row in units):
                    own.append(None)
                    continue
                if len(place) != 1 or len(moved) < 1:
                    return None
                own.append(stage.axes[place[0]].name)
            if not set(own).isdisjoint(member_axes(stage)):
                return None
            found = tuple(own) if found is None else _agreed(found, own)
            if found is None:
                return None
    named = [row for row in found or () if row is not None]
    return found if named and len(set(named)) == len(named) else None


def _agreed(one: RowAxes, other: Sequence[str | None]) -> RowAxes | None:
    """Joins what two readers say, where they do not contradict each other."""
    if any(a != b for a, b in zip(one, other, strict=True) if a is not None and b is not None):
        return None
    return tuple(b if a is None else a for a, b in zip(one, other, strict=True))
