"""shared_extrema: the maximum of many elements becomes one of maxima of two, which several places share.

    y[i, j] = max(v[i, j], v[i, j + 1], v[i + 3, j + 4], v[i + 3, j + 5], ...)
    ->  v_pairs[i, j] = max(v[i, j], v[i, j + 1])
        y[i, j] = max(v_pairs[i, j], v_pairs[i + 3, j + 4], ...)

Two elements that lie apart as many others do are compared once, wherever they are read next. Done again with what is left,
it gives maxima of 4, 8, ... along a line, as of a window that is a disc or a cross. Elements may be in two pairs, because a
maximum takes no notice of what it sees twice. Extrema round nothing, so values stay the same, NaN and infinities included;
which zero is taken of two is left open, as it is in the nested extremum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from ...common.remembered import remembered
from ..expr import Expr, Op, Read, binary, rewrite, walk
from ..indices.affine import Affine, affine, simplify, to_expr
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import find_stage, free_name, operands, refuse, with_stages

LEAST_SAVED = 8  # elements that the pairs have to save: they are computed and kept as well
TRIED = 16  # distances, those that occur most often first

Place = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The pairs of an extremum: of which reads, how far apart, where the first of each lies, and what is left alone."""

    extremum: Op
    family: dict[Place, Read]
    distance: Place
    firsts: frozenset[Place]
    alone: frozenset[Place]


def shared_extrema(program: Program, stage: str) -> Program:
    """A stage that takes the minimum or maximum of many elements reads those of pairs, which a stage NAME_pairs computes.

    Errors: ProgramError where hardly any two elements lie as far apart as others do.
    """
    old = find_stage(program, stage)
    found = _pairs_of(old)
    if found is None:
        raise refuse(
            old, "this stage has no extremum of many pairs", expected="nested min or max of reads some points apart"
        )
    name = free_name(program, f"{old.name}_pairs")
    read = next(iter(found.family.values()))
    shape = program.tensors[read.tensor].shape
    pairs = _stage_of_pairs(name, found, read, shape)
    made = rewrite(old.bodies[0], lambda node: _paired(found, name) if node == found.extremum else None)
    return with_stages(program, {old.name: (pairs, replace(old, bodies=(made,)))})


def can_share_extrema(stage: Stage) -> bool:
    """True where `shared_extrema` applies."""
    return _pairs_of(stage) is not None


def is_of_pairs(stage: Stage) -> bool:
    """True for a stage that does nothing but take an extremum of two elements of one tensor."""
    if stage.combiner is not None or len(stage.bodies) != 1:
        return False
    match stage.bodies[0]:
        case Op(name="min" | "max", args=(Read(tensor=one), Read(tensor=other))):
            return one == other
    return False


@remembered
def _pairs_of(stage: Stage) -> _Pairs | None:
    """Returns the pairs that save most in some extremum of a stage; None where they do not save enough."""
    if stage.combiner is not None or len(stage.bodies) != 1:
        return None
    found = [pairs for op in _extrema(stage.bodies[0]) for family in _families(op) if (pairs := _best(op, family))]
    return max(found, key=_saved, default=None)


def _extrema(body: Expr) -> Iterator[Op]:
    """The extrema that stand in no other one of their kind."""
    inner: set[int] = set()
    for node in walk(body):
        if isinstance(node, Op) and node.name in ("min", "max"):
            inner |= {id(arg) for arg in node.args if isinstance(arg, Op) and arg.name == node.name}
            if id(node) not in inner:
                yield node


def _families(extremum: Op) -> list[dict[Place, Read]]:
    """Returns the reads of an extremum that differ by whole numbers of points, by these."""
    found: dict[tuple[str, tuple[Affine, ...]], dict[Place, Read]] = {}
    for read in operands(extremum, extremum.name):
        if isinstance(read, Read) and read.indices:
            forms = [affine(index) for index in read.indices]
            place = tuple(form.constant for form in forms)
            found.setdefault((read.tensor, tuple(form.plus(Affine((), -form.constant)) for form in forms)), {})[
                place
            ] = read
    return [family for family in found.values() if len(family) >= 2 * LEAST_SAVED]


def _best(extremum: Op, family: dict[Place, Read]) -> _Pairs | None:
    counts = Counter(
        tuple(b - a for a, b in zip(one, other, strict=True)) for one, other in combinations(sorted(family), 2)
    )
    likely = [distance for distance, count in counts.most_common(TRIED) if count >= LEAST_SAVED]
    tried = [_Pairs(extremum, family, distance, *_covered(frozenset(family), distance)) for distance in likely]
    best = max(tried, key=_saved, default=None)
    return best if best is not None and _saved(best) >= LEAST_SAVED else None


def _saved(pairs: _Pairs) -> int:
    return len(pairs.family) - len(pairs.firsts) - len(pairs.alone)


def _covered(places: frozenset[Place], distance: Place) -> tuple[frozenset[Place], frozenset[Place]]:
    """Returns the firsts of as few pairs as cover all places that have another one at this distance, and the other places."""
    firsts, alone = set[Place](), set[Place]()
    for place in places:
        if _moved(place, distance, -1) in places:
            continue
        line = [place]
        while (after := _moved(line[-1], distance, 1)) in places:
            line.append(after)
        if len(line) == 1:
            alone.add(place)
            continue
        firsts |= {*line[:-1:2], line[-2]} if len(line) % 2 else {*line[::2]}
    return frozenset(firsts), frozenset(alone)


def _moved(place: Place, distance: Place, times: int) -> Place:
    return tuple(a + times * b for a, b in zip(place, distance, strict=True))


def _stage_of_pairs(name: str, found: _Pairs, read: Read, shape: tuple[int, ...]) -> Stage:
    """The extremum of each two elements of a tensor at a distance."""
    left = tuple(extent - abs(far) for extent, far in zip(shape, found.distance, strict=True))
    axes = tuple(Axis(f"p{d}", extent) for d, extent in enumerate(left))
    one, other = (
        Read(read.tensor, tuple(simplify(axis.var + more) for axis, more in zip(axes, place, strict=True)), read.dtype)
        for place in (_base(found.distance), _moved(_base(found.distance), found.distance, 1))
    )
    return Stage((Tensor(name, read.dtype, left),), axes, (binary(found.extremum.name, one, other),))


def _base(distance: Place) -> Place:
    """Returns the place of the first element of the first pair, whose second one has no index below 0."""
    return tuple(max(0, -far) for far in distance)


def _paired(found: _Pairs, name: str) -> Expr:
    """The extremum with one read for each pair, where the first of its elements was read."""
    kept: list[Expr] = []
    places = {read: place for place, read in found.family.items()}
    for operand in dict.fromkeys(operands(found.extremum, found.extremum.name)):
        place = places.get(operand) if isinstance(operand, Read) else None
        if place is None or place in found.alone:
            kept.append(operand)
        elif place in found.firsts:
            assert isinstance(operand, Read)
            indices = tuple(
                to_expr(affine(index).plus(Affine((), -base)))
                for index, base in zip(operand.indices, _base(found.distance), strict=True)
            )
            kept.append(Read(name, indices, operand.dtype))
    made, *others = kept
    for operand in others:
        made = binary(found.extremum.name, made, operand)
    return made
