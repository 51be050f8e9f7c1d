"""Light nests run in the parallel region of a later nest that does not depend on them: one start of the threads less.

    parallel i: 58 { A(i) }                parallel j: 196 {
    parallel j: 196 { B(j) }         ->        for each i from j * 58 // 196 to (j + 1) * 58 // 196 { A(i) }
                                               B(j)
                                           }

To start the threads and to wait for the last of them takes 1 to 2 us on a Zen 5, beside the 2 to 5 us of the nests which
find out whether something is exceptional (lower/exceptional.py). The trips of both are spread over the threads in the same way:
where both go along the same data, what the first has read is in the caches for the second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ...targets.target import Target
from ...tensor.dtype import i64
from ...tensor.expr import Const, Expr, Var
from ...tensor.indices.affine import simplify
from ..ir.facts import facts
from ..ir.loop_ir import (
    Allocate,
    Block,
    For,
    Let,
    LoopKind,
    LoopProgram,
    MatrixMultiply,
    Nest,
    Statement,
    statements,
)
from .keep_small_serial import SMALL, instructions

LIGHT = 200_000.0  # instructions, some 50 us of one thread: beside more than that a start of the threads is little
EVEN = 4  # trips for each thread, at least: then none has much more of the light nest than another
SHARE = 0.5  # how many times the work of the light nest the other one has at least


def run_together(program: LoopProgram, target: Target, threads: int) -> LoopProgram:
    """An equal program for so many threads, in which nests of less than `LIGHT` instructions run beside others where they may.

    The last ones move first: what a nest waits for can then go further back itself.
    """
    nests = list(program.nests)
    for place in reversed(range(len(nests))):
        host = _host(nests, place, target, threads)
        if host is not None:
            nests[host] = _together(nests[place], nests[host])
            del nests[place]
    return replace(program, nests=tuple(nests))


@dataclass(frozen=True, slots=True)
class _Uses:
    """Tells whether two nests may change places, and whether they may be one."""

    reads: frozenset[str]
    writes: frozenset[str]
    own: frozenset[str]  # names that only this nest knows

    @staticmethod
    def of(nest: Nest) -> _Uses:
        known, inside = facts(nest.body), list(statements(nest.body))
        made = frozenset(one.buffer.name for one in inside if isinstance(one, Allocate))
        variables = frozenset(one.var for one in inside if isinstance(one, (For, Let)))
        return _Uses(known.buffers - made, known.writes - made, made | variables)

    def waits_for(self, other: _Uses) -> bool:
        """Says whether the order of the two matters."""
        return bool(self.writes & other.reads or other.writes & self.reads)  # what is written counts as read


def _host(nests: list[Nest], place: int, target: Target, threads: int) -> int | None:
    """The nest in which a light one runs: of those before the first that waits for it the one that shares most of its reads,
    and then the last."""
    light, work = nests[place], instructions(nests[place].body, {}, target)
    own, loops = _Uses.of(light), _parallel(light)
    if not loops or work > LIGHT or _uses_matrix_unit(light):
        return None
    best: tuple[int, int] | None = None
    for number in range(place + 1, len(nests)):
        other = _Uses.of(nests[number])
        if other.waits_for(own):
            break
        around = _parallel(nests[number])
        enough = instructions(nests[number].body, {}, target) >= max(SMALL, SHARE * work)
        if around and enough and _trips(around) >= min(_trips(loops), EVEN * threads) and not own.own & other.own:
            best = max(best or (-1, -1), (len(own.reads & other.reads), number))
    return None if best is None else best[1]


def _parallel(nest: Nest) -> list[For]:
    """The parallel loops around all of a nest, if their extents are known."""
    found: list[For] = []
    body = nest.body
    while isinstance(body, For) and body.kind is LoopKind.PARALLEL:
        if not isinstance(body.extent, Const):
            return []
        found.append(body)
        body = body.body
    return found


def _trips(loops: list[For]) -> int:
    return prod(_extent(loop) for loop in loops)


def _extent(loop: For) -> int:
    assert isinstance(loop.extent, Const)
    return int(loop.extent.value)


def _uses_matrix_unit(nest: Nest) -> bool:
    return any(isinstance(one, MatrixMultiply) for one in statements(nest.body))


def _together(light: Nest, host: Nest) -> Nest:
    """Both in the parallel loops of `host`."""
    own, around = _parallel(light), _parallel(host)
    trip = _linear(around)
    first, end = (_share(at, _trips(own), _trips(around)) for at in (trip, trip + 1))
    begin, number, flat = (f"{own[0].var}_{what}_0" for what in ("first", "number", "trip"))
    inner = Let(flat, Var(begin) + Var(number), _digits(own, Var(flat), own[-1].body))
    share = Let(begin, first, For(number, end - Var(begin), inner, label=f"{light.name} in {host.name}"))
    body: Statement = Block((share, around[-1].body))
    for loop in reversed(around):
        body = replace(loop, body=body)
    return replace(host, body=body)


def _linear(loops: list[For]) -> Expr:
    """The number of a trip of nested loops, counted over all of them."""
    found: Expr = Const(0, i64)
    for loop in loops:
        found = found * _extent(loop) + Var(loop.var)
    return simplify(found)


def _share(trip: Expr, trips: int, of: int) -> Expr:
    """Says how many of `trips` are done before trip number `trip` of `of`."""
    return simplify(trip * trips // of)


def _digits(loops: list[For], flat: Expr, body: Statement) -> Statement:
    """`body`, each loop's variable bound to its digit of a number."""
    below = 1
    for place, loop in reversed(list(enumerate(loops))):
        digit = flat // below
        body = Let(loop.var, simplify(digit if place == 0 else digit % _extent(loop)), body)
        below *= _extent(loop)
    return body
