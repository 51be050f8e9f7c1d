"""Which values integer inputs have where they are used as indices: the ranges that the clamps of a program declare.

    W[min(max(index[t], 0), 999), d]              index in 0 .. 999
    x[min(max(2 * i64(k[j]) + 1, 0), 63)]         k in 0 .. 31
    sum[k](select(b == n[k], x[k], 0)), b: 9      n in 0 .. 8: the places of a sum at computed places
    t[i] = index[i] - 1;  W[min(max(t[i], 0), 9)]  index in 1 .. 10
    select(i < 0, i + 10, i), i being index[t], clamped to 0 .. 9:  index in -10 .. 9

What an index may be, 0 .. extent - 1, is handed down through clamps, choices, casts and arithmetic with constants and axes to
the elements that are read, also through stages that compute indices point by point. Data in these ranges pass the clamps as
they are; data outside of them would all read the same few elements, and so say nothing about how fast a kernel is.
"""

from __future__ import annotations

from ..expr import Cast, Expr, Local, Op, Read, walk
from ..program import Program, Stage
from .intervals import Bounds, interval
from .operator_ranges import Interval, range_of
from .scatter import scattered

EVERYWHERE: Interval = (-(1 << 62), 1 << 62)


def index_ranges(program: Program) -> dict[str, Interval]:
    """Integer input -> the least and the largest value that all its uses as an index allow; others are left out.

    Where two uses contradict each other, that of the later stage counts.
    """
    allowed: dict[str, Interval] = {}
    for stage in reversed(program.stages):
        walker = _Walker(stage, allowed)
        found = scattered(stage)
        for axis, place in found.places.items() if found is not None else ():
            walker.allow(place, (0, stage.axis(axis).extent - 1))
        for expression in stage.expressions:
            for node in walk(expression):
                if isinstance(node, Read) and node.tensor in program.tensors:
                    for index, size in zip(node.indices, program.tensors[node.tensor].shape, strict=True):
                        walker.allow(index, (0, size - 1))
        if stage.combiner in (None, "max", "min"):
            for tensor, body in zip(stage.tensors, stage.bodies, strict=True):
                if tensor.name in allowed:
                    walker.allow(body, allowed[tensor.name])
    integers = [item.tensor for item in program.inputs if item.tensor.dtype.is_integer]
    return {tensor.name: allowed[tensor.name] for tensor in integers if tensor.name in allowed}


class _Walker:
    """Hands ranges down inside of one stage to the tensors that it reads."""

    def __init__(self, stage: Stage, allowed: dict[str, Interval]) -> None:
        self._bounds: Bounds = {axis.name: (0, axis.extent - 1) for axis in stage.all_axes}
        self._locals = dict(stage.fold.locals) if stage.fold is not None else {}
        self._allowed = allowed

    def allow(self, expr: Expr, wanted: Interval) -> None:
        """The value of an expression is to be in a range."""
        match expr:
            case Read(tensor=name, dtype=dtype) if dtype.is_integer:
                self._use(name, _meet(wanted, range_of(dtype)))
            case Local(name=name) if name in self._locals:
                self.allow(self._locals[name], wanted)
            case Cast(arg=arg) if arg.dtype.is_integer:
                self.allow(arg, wanted)
            case Op(name="select", args=(_, yes, no)):
                self._choice(yes, no, wanted)
            case Op(name="neg", args=(arg,)):
                self.allow(arg, (-wanted[1], -wanted[0]))
            case Op(name="abs", args=(arg,)):
                self.allow(arg, (max(wanted[0], 0), wanted[1]))
            case Op(name=name, args=(left, right)):
                for arg, other, first in ((left, right, True), (right, left, False)):
                    if self._reads(arg):
                        found = self._through(name, other, first, wanted)
                        if found is not None:
                            self.allow(arg, found)

    def _through(self, name: str, other: Expr, first: bool, wanted: Interval) -> Interval | None:
        """The range of one operand, given that of the result; None where nothing can be said."""
        low, high = wanted
        if name in ("min", "max") and self._reads(other):
            return wanted
        if self._reads(other) or not other.dtype.is_integer:
            return None
        least, most = interval(other, self._bounds)
        match name:
            case "min":
                return _meet(wanted, (EVERYWHERE[0], most))
            case "max":
                return _meet(wanted, (least, EVERYWHERE[1]))
            case "add":
                return _ordered(low - least, high - most)
            case "sub" if first:
                return _ordered(low + most, high + least)
            case "sub":
                return _ordered(most - high, least - low)
            case "mul" if least == most > 0:
                return _ordered(-(-low // least), high // least)
            case "mul" if least == most < 0:
                return _ordered(-(-high // least), low // least)
            case "floordiv" if first and least == most > 0:
                return low * least, high * least + least - 1
            case "mod" if first and least == most > 0:
                return 0, least - 1
        return None

    def _choice(self, yes: Expr, no: Expr, wanted: Interval) -> None:
        """Either arm may be taken: a tensor that both use may have the values of either."""
        before = dict(self._allowed)
        found: list[dict[str, Interval]] = []
        for arm in (yes, no):
            self._allowed.clear()
            self.allow(arm, wanted)
            found.append(dict(self._allowed))
        self._allowed.clear()
        self._allowed.update(before)
        for name in dict.fromkeys([*found[0], *found[1]]):
            ranges = [one[name] for one in found if name in one]
            self._use(name, (min(low for low, _ in ranges), max(high for _, high in ranges)))

    def _use(self, name: str, wanted: Interval) -> None:
        known = self._allowed.get(name)
        both = wanted if known is None else _meet(known, wanted)
        if both[0] <= both[1]:
            self._allowed[name] = both

    def _reads(self, expr: Expr) -> bool:
        for node in walk(expr):
            if isinstance(node, Read):
                return True
            if isinstance(node, Local) and node.name in self._locals and self._reads(self._locals[node.name]):
                return True
        return False


def _meet(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), min(a[1], b[1])


def _ordered(low: int, high: int) -> Interval | None:
    return (low, high) if low <= high else None
