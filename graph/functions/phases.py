"""Transposed convolutions with a stride, phase by phase: no product with the zeros between the elements of the image.

    y[s * m + f] = sum over t of x[m + b - t] * w[a + s * t]          a = (f + padding) % s, b = (f + padding) // s

Positions with one remainder f see the same elements of the window, so that each phase is a convolution with a stride of 1, and
all of them together have as many products as the convolution that is transposed. The phases are put between one another in the
end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from ...tensor.build import ReduceAxis, compute, literal, reduce_axis, select, sum
from ...tensor.collect import Made
from ...tensor.expr import Expr
from ...tensor.indices.affine import simplify
from ...tensor.ops.window import OFFSETS, Window, all_of
from ...tensor.precision import wide
from ...tensor.program import Tensor

Phase = tuple[int, ...]  # the remainder of the position in each dimension

MOST = 16  # phases; steps that make more of them are rare


def has_phases(window: Window) -> bool:
    """Says whether a transposed convolution is done phase by phase."""
    steps = [(s, d) for s, d in zip(window.stride, window.dilation, strict=True) if s > 1]
    return bool(steps) and all(d == 1 for _, d in steps) and prod(window.stride) <= MOST


def transposed_by_phases(x: Tensor, weights: Tensor, window: Window, counts: Sequence[int], groups: int) -> Tensor:
    """Computes what `tensor.ops.conv.transposed` does, of images with channels first; `has_phases` has to hold."""
    steps = window.stride
    weight = _weights_of(weights, len(steps))
    outer = weights.shape[1]
    found = {phase: _phase(x, weight, outer, window, counts, groups, phase) for phase in product(*map(range, steps))}
    some = next(one for one in found.values() if one is not None)

    def element(n: Expr, o: Expr, *positions: Expr) -> Expr:
        places = [simplify(p // s) if s > 1 else p for p, s in zip(positions, steps, strict=True)]
        chosen: Expr = literal(0, some.dtype)
        for phase, tensor in found.items():
            here = [simplify(p % s).equal(f) for p, s, f in zip(positions, steps, phase, strict=True) if s > 1]
            chosen = select(all_of(here), literal(0, some.dtype) if tensor is None else tensor[(n, o, *places)], chosen)
        return chosen

    return compute((*some.shape[:2], *counts), element, name="phases")


def _weights_of(weights: Tensor, rank: int) -> Callable[..., Expr]:
    """Returns what gives the weight of two channels at an element of the window. Elements lie side by side, and a phase needs
    some of them: all phases read what is turned for them once. Of a constant each packs what it needs anyway."""
    if isinstance(weights, Made) and weights.is_constant:
        return lambda source, target, *at: weights[(source, target, *at)]
    shape = (*weights.shape[2:], *weights.shape[:2])
    turned = compute(shape, lambda *at: weights[(*at[rank:], *at[:rank])], name="elements_first")
    return lambda source, target, *at: turned[(*at, source, target)]


def _phase(
    x: Tensor, weight: Callable[..., Expr], outer: int, window: Window, counts: Sequence[int], groups: int, phase: Phase
) -> Tensor | None:
    """The convolution at positions of one phase; None where no element of the window meets one of the image. `weight`: of two
    channels at an element of the window; `outer`: channels of a group's results."""
    rank, steps = len(phase), window.stride
    first = [(f + p) % s for f, p, s in zip(phase, window.padding, steps, strict=True)]
    terms = [len(range(a, k, s)) for a, k, s in zip(first, window.kernel, steps, strict=True)]
    if 0 in terms:
        return None
    ahead = [(f + p) // s for f, p, s in zip(phase, window.padding, steps, strict=True)]
    inner = x.shape[1] // groups
    many = [-(-count // s) for count, s in zip(counts, steps, strict=True)]
    channel = reduce_axis(inner, "c")
    offsets: list[ReduceAxis] = [reduce_axis(t, name) for t, name in zip(terms, OFFSETS, strict=False)]

    def element(n: Expr, o: Expr, *places: Expr) -> object:
        source: Expr = channel if groups == 1 else simplify(o // outer * inner + channel)
        target = o if groups == 1 else simplify(o % outer)
        wanted, at, guards = [], [], list[Expr]()
        for d in range(rank):
            gap = window.dilation[d]
            behind = terms[d] - 1  # offsets run forward in the image, backward in the window
            place = simplify(places[d] + ahead[d] + (offsets[d] - behind) * gap)
            at.append(simplify((behind - offsets[d]) * steps[d] + first[d]))
            guards += [place >= 0] * (ahead[d] < behind * gap)
            guards += [place < x.shape[d + 2]] * (many[d] - 1 + ahead[d] >= x.shape[d + 2])
            wanted.append(place)
        value: Expr = x[(n, source, *wanted)]
        value = select(all_of(guards), value, 0) if guards else value
        return sum(wide(value) * wide(weight(source, target, *at)), [channel, *offsets])

    return compute((x.shape[0], outer * groups, *many), element, name="y")
