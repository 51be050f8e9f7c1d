"""What the lowering knows at one place of a nest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import gcd

from ...schedules.extents import Extent
from ...tensor.expr import Expr, Op, Var
from ...tensor.indices.affine import affine
from ..ir.index import Bounds, number, plus
from ..ir.loop_ir import Statement


@dataclass(frozen=True, slots=True)
class AxisRange:
    """Says how far the loops opened so far have come along one axis: points position .. position + size - 1 are to be
    covered."""

    position: Expr
    size: Expr


@dataclass(frozen=True, slots=True)
class Team:
    """The threads of a GPU that run something together: how many, and the number of each."""

    size: int
    index: Expr


ALONE = Team(1, number(0))


@dataclass(frozen=True, slots=True)
class View:
    """Holds what is known inside of some loops.

    places: (stage, axis) -> AxisRange, for every stage around.
    origins: stage -> axis -> where its stored box begins.
    variables: loop name -> its variable.
    edge: which body of a register tile is written: None before the choice, True the masked one.
    inside: whether all points of the tile lie inside of the borders (interior.py).
    tail: True where a reduction in lanes may run over the end of its axis: in the last trip of the loops around the lanes.
    lanes: the condition that keeps a trip of a copy or of a reduction in lanes inside of its axis (None: always).
    team: the threads that run what is opened here.
    diverges: "thread" where only some threads of a warp come, "warp" where only some warps of a block do.
    slots: stage -> which copy of its storage is meant, of those that exist several times (software_pipeline.py).
    begins: stage -> axis -> how far inside of its box what runs here begins, of a stage that runs bit by bit.
    later: whether stores to shared memory are asynchronous.
    only: the condition for this thread of a team to store to memory that others see (None: always).
    """

    places: dict[tuple[str, str], AxisRange]
    origins: dict[str, dict[str, Expr]]
    variables: dict[str, Expr] = field(default_factory=dict)
    edge: bool | None = None
    inside: bool = False
    tail: bool = False
    lanes: Expr | None = None
    team: Team = ALONE
    only: Expr | None = None
    diverges: str = ""
    slots: dict[str, Expr] = field(default_factory=dict)
    begins: dict[str, dict[str, Expr]] = field(default_factory=dict)
    later: bool = False

    def moved(self, stage: str, axis: str, place: AxisRange) -> View:
        """The view with one place changed."""
        return replace(self, places={**self.places, (stage, axis): place})

    def shifted(self, stage: str, axis: str, points: Expr) -> View:
        """The view with one place so many points further on."""
        place = self.places[stage, axis]
        return self.moved(stage, axis, AxisRange(plus(place.position, points), place.size))

    def opening(self, loop: str, variable: Expr) -> View:
        """The view inside of one more loop."""
        return replace(self, variables={**self.variables, loop: variable})


Inner = Callable[[View], Statement]


class Names:
    """Fresh variable names, and the range of each variable."""

    def __init__(self) -> None:
        self.bounds: Bounds = {}
        self.multiples: dict[str, int] = {}  # variable -> what it is a multiple of
        self.apart: dict[str, str] = {}  # variable on which threads disagree -> how far: "warp" or "thread"
        self._count = 0

    def restart(self) -> None:
        """Begins again: what nests of different candidates have in common is then the same to the letter."""
        self.bounds.clear()
        self.multiples.clear()
        self.apart.clear()
        self._count = 0

    def fresh(self, hint: str) -> str:
        """A name that nothing else has, since the start."""
        self._count += 1
        return f"{hint.replace('.', '_')}_{self._count}"

    def variable(self, hint: str, extent: int) -> Var:
        """A variable that runs over 0 .. extent - 1."""
        name = self.fresh(hint)
        self.bounds[name] = (0, max(0, extent - 1))
        return Var(name)

    def multiple(self, expr: Expr) -> int:
        """A number that an expression is surely a multiple of; 0 for zero."""
        match expr:
            case Op(name="min" | "max", args=(left, right)):
                return gcd(self.multiple(left), self.multiple(right))
            case Var(name=name):
                return self.multiples.get(name, 1)
        form = affine(expr)
        parts = [c * (self.multiple(atom) if isinstance(atom, Var) else 1) for atom, c in form.terms]
        return gcd(form.constant, *parts)


def fixed(extent: Extent) -> int:
    """An extent of a tree that one config was applied to."""
    return int(extent)
