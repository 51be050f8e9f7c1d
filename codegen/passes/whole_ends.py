"""Where there are no masks in hardware, the last tile of an axis begins earlier instead of ending late.

    for p < n { let size = min(32, extent - 32 p); if 31 < size: whole(32 p) else: masked(32 p, size) }
    ->  for p < n { let size = min(32, extent - 32 p); if 31 < size: whole(32 p) else: whole(extent - 32) }

It computes some points once more, and they come out the same: a tile may do so if no trip reads what another one writes. A
masked access of a processor without masks is an access for each lane behind a branch: of a vector of 32 bytes, more than 32
whole ones. Threads may write the same values to the same place. Of several axes those begin earlier that can; the others are
asked about by themselves, and what is left for tiles that are not whole there is moved in the same way. Where a tile is
`whole` only if something else holds too that moves with it, as inside of borders, the guarded tiles keep what they ask and
begin earlier by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from ...tensor.expr import Const, Expr, Op, Var, variables
from ...tensor.indices.affine import Affine, affine, interval, to_expr
from ...tensor.indices.bounds import conjuncts
from ..ir.index import both, smaller
from ..ir.loop_ir import Allocate, For, If, Let, LoopProgram, Statement, Store, Update, statements, with_substatements
from .tile_begins import (
    Surroundings,
    TileAxis,
    can_run_again,
    divisor_of,
    moves_all,
    moves_by_tiles,
    with_begin,
    with_nests,
)


def whole_ends(program: LoopProgram, divisors: Mapping[str, int] | None = None) -> LoopProgram:
    """An equal program. `divisors`: of each tensor, a common multiple of all that indices are divided by where it is computed.
    What was a multiple of it stays one, as quotients and remainders may have been worked out from that."""
    return with_nests(program, _Ends(Surroundings(), divisors or {}).statement)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice between whole tiles and others: the axes that can begin earlier, and the condition on all others, if any."""

    ends: list[TileAxis]
    others: Expr | None


class _Ends:
    """Rewrites the statements at one place."""

    def __init__(self, around: Surroundings, divisors: Mapping[str, int]) -> None:
        self.around = around
        self.divisors = divisors

    def statement(self, node: Statement) -> Statement:
        """The statement with its ends made whole."""
        around = self.around
        match node:
            case For() | Let() | Allocate():
                inside = _Ends(around.inside(node), self.divisors)
                return replace(self._in_full(node), body=inside.statement(node.body))
            case If(condition=condition, then=then, otherwise=otherwise) if otherwise is not None:
                asked = self._asked(condition)
                if asked is None:
                    return self.statement(then)
                return self._begun(replace(node, condition=asked), otherwise)
        return with_substatements(node, self.statement)

    def _in_full(self, node: For | Let | Allocate) -> For | Let | Allocate:
        """The statement; a loop without a mask where all its copies are real."""
        if not isinstance(node, For) or node.valid is None:
            return node
        _, high = interval(node.extent, self.around.bounds)
        return replace(node, valid=None) if interval(node.valid, self.around.bounds)[0] >= high else node

    def _asked(self, condition: Expr) -> Expr | None:
        """The part of a condition that is left to ask, None where it surely holds."""
        asked: Expr | None = None
        for part in conjuncts(condition):
            if not self._holds(part):
                asked = both(asked, part)
        return asked

    def _holds(self, condition: Expr) -> bool:
        match condition:
            case Op(name="lt", args=(Const(value=last), Var(name=size))):
                return self.around.bounds.get(size, (0, 0))[0] > last
        return False

    def _begun(self, node: If, otherwise: Statement) -> Statement:
        """The choice, with tiles that begin earlier where they can."""
        choice = self._choice(node, otherwise)
        if choice is None:
            if ends := self._guarded_ends(node, otherwise):
                moved = _begun_earlier(otherwise, ends, alone=False)
                return replace(node, then=self.statement(node.then), otherwise=self.statement(moved))
            return with_substatements(node, self.statement)
        last: Statement = _begun_earlier(node.then, choice.ends, alone=len(choice.ends) == 1)
        if choice.others is not None:
            moved = self.statement(_begun_earlier(otherwise, choice.ends, alone=False))
            last = If(choice.others, last, moved)
        return replace(node, otherwise=last)

    def _choice(self, node: If, otherwise: Statement) -> _Choice | None:
        """The axes along which tiles begin earlier, and the other condition; None where no tile can."""
        divisor = divisor_of(node.then, self.divisors)
        found = [(part, self._end(part, divisor)) for part in conjuncts(node.condition)]
        ends = [end for _, end in found if end is not None]
        others: Expr | None = None
        for part, end in found:
            if end is None:
                others = both(others, part)
        if not ends or (others is not None and not self._is_apart(others, ends)):
            return None
        if others is not None and _fills(otherwise, {end.size for end in ends}):
            return None
        moving = node.then if others is None else node
        begins = [(end, Var(_name(end)) if others is not None else _begin(end, len(ends) == 1)) for end in ends]
        bodies = [node.then] if others is None else [node.then, otherwise]
        return _Choice(ends, others) if self._may_begin(node, moving, bodies, begins) else None

    def _guarded_ends(self, node: If, guarded: Statement) -> list[TileAxis]:
        """The ends among what a choice asks, where the other tiles ask something that moves with them, as at borders:
        those tiles begin earlier then if they have to, along all axes together or along one that can alone."""
        divisor = divisor_of(guarded, self.divisors)
        found = [self._end(part, divisor) for part in conjuncts(node.condition)]
        ends = [end for end in found if end is not None]
        if not 0 < len(ends) < len(found):
            return []
        some = [ends] if len(ends) == 1 else [ends, *([end] for end in reversed(ends))]  # vectors lie along inner axes
        return next((these for these in some if self._can_begin_earlier(node, guarded, these)), [])

    def _can_begin_earlier(self, node: If, guarded: Statement, ends: list[TileAxis]) -> bool:
        """Tells whether guarded tiles may begin earlier along some axes, and have masks that go away then."""
        sizes = {end.size for end in ends}
        if not _masks_by(guarded, sizes) or _fills(guarded, sizes):
            return False
        return self._may_begin(node, guarded, [guarded], [(end, Var(_name(end))) for end in ends])

    def _may_begin(
        self, node: If, moving: Statement, bodies: Sequence[Statement], begins: Sequence[tuple[TileAxis, Expr]]
    ) -> bool:
        """Tells whether tiles may begin elsewhere along some axes: `moving` is the part of a choice that runs again, and
        `bodies` what its arms do."""
        if not all(moves_by_tiles(body, end, begin) for body in bodies for end, begin in begins):
            return False
        ends = [end for end, _ in begins]
        outermost = next(loop for name, loop in self.around.loops.items() if name in {end.loop for end in ends})
        held = self.around.held_at(outermost)
        return can_run_again(moving, node, outermost) and all(moves_all(body, ends, held) for body in bodies)

    def _is_apart(self, condition: Expr, ends: list[TileAxis]) -> bool:
        """Tells whether a condition stays as it is when some tiles begin earlier."""
        moving = {name for end in ends for name in (end.loop, end.size)}
        seen: set[str] = set()
        waiting = set(variables(condition))
        while waiting:
            seen |= waiting
            values = [self.around.lets[name] for name in waiting if name in self.around.lets]
            waiting = set().union(*map(variables, values)) - seen
        return seen.isdisjoint(moving)

    def _end(self, condition: Expr, divisor: int) -> TileAxis | None:
        """The end that `tile - 1 < size` asks about, where size is the lesser of `tile` and what is left of the axis."""
        match condition:
            case Op(name="lt", args=(Const(value=last), Var(name=size))):
                pass
            case _:
                return None
        match self.around.lets.get(size):
            case Op(name="min", args=(Const(value=tile), left)) if tile == last + 1:
                pass
            case _:
                return None
        form = affine(left)
        tiles = [name for name in self.around.loops if form.coefficient(Var(name)) == -tile]
        if len(tiles) != 1:
            return None
        extent = form.plus(affine(Var(tiles[0])), int(tile))
        begin = extent.plus(Affine((), -int(tile)))
        if any(number % divisor for number in (begin.constant, *(times for _, times in begin.terms))):
            return None
        if tiles[0] in variables(to_expr(extent)) or interval(to_expr(extent), self.around.bounds)[0] < tile:
            return None
        return TileAxis(tiles[0], size, int(tile), extent)


def _masks_by(body: Statement, sizes: AbstractSet[str]) -> bool:
    """Tells whether points are masked by how large a tile is."""
    asked = [s.valid for s in statements(body) if isinstance(s, For) and s.valid is not None]
    return any(not sizes.isdisjoint(variables(valid)) for valid in asked)


def _fills(body: Statement, sizes: AbstractSet[str]) -> bool:
    """Tells whether values ask how large a tile is: what fills the overhang of a tile with zeros has to run there."""
    values = [s.value for s in statements(body) if isinstance(s, (Store, Update))]
    return any(not sizes.isdisjoint(variables(value)) for value in values)


def _begun_earlier(body: Statement, ends: list[TileAxis], alone: bool) -> Statement:
    """A whole tile that ends where the axes do. `alone`: it surely is the last one of its axis."""
    begins: dict[str, Expr] = {}
    for end in ends:
        begin = _begin(end, alone)
        body = with_begin(body, end, begin)
        if not alone:
            begins[_name(end)] = smaller(to_expr(affine(Var(end.loop)).times(end.tile)), end.last)
    for name, value in begins.items():
        body = Let(name, value, body)
    return body


def _begin(end: TileAxis, alone: bool) -> Expr:
    """Says where the tile begins: where the last one does; of several axes a name, as it may be in the midst of one of them."""
    return end.last if alone else Var(_name(end))


def _name(end: TileAxis) -> str:
    return f"{end.loop}_begin"
