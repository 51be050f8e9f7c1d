"""The transform rule: sums whose coefficients stand in the text, as in fast convolutions, are written out.

    V[y, x, t, c] = sum[b](B[x, b] * L[y, t, b, c])        B a table

Axes that find a coefficient are unrolled, so that coefficients are numbers in the code and zeros cost nothing. The contiguous
axis goes in vectors, the others are loops. A transform in one direction that only feeds one in the other direction runs
inside of it, and stays in registers or near them.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from .....common.errors import ProgramError
from .....tensor.dtype import f32, f64, i32
from .....tensor.expr import Const, Op, Read, Var, variables
from .....tensor.indices.affine import affine
from .....tensor.program import Program, Stage
from .....tensor.rewrites.fast_windows.space_to_batch import space_to_batch
from .....tensor.rewrites.fast_windows.winograd_taps import RESULTS
from .....tensor.rewrites.registry import apply_rewrite
from ....access import depends, element_stride, moves_data_only, output_stride, plain_dimension
from ....prepared import constant_tensors
from ....schedule import LoopHandle, Schedule, StageHandle
from ...rule import Decided, Rule, nests_of_their_own
from ..dots import WordsAsked, multiplies_halves_alone
from ..transpose import NARROWEST
from ..window import WindowRoles, window_of

TILES = (4, 2)  # outputs in each direction of a tile of a fast convolution
TILES_OF_INTEGERS = (2,)  # the same of bytes
TILES_OF_TAPS = (4,)  # taps, where these are many: smaller tiles have more products, and more transformed data
INTEGERS = "winograd_integers"
EXACT = (f32, f64)  # dtypes whose tolerance the errors of fast convolutions stay within
DEPTH_AT_LEAST = 16  # terms of the products of a fast convolution that pay for its transforms
TERMS_AT_MOST = 1500  # written out in one transform
FILTERS_AT_LEAST = 1 << 20  # elements of transformed filters that may be worth it not to keep: 4 MB
TILES_AT_LEAST = 24  # of all images, each of which multiplies what a call has transformed of the filters


@dataclass(frozen=True, slots=True)
class FastWindow:
    """A sum over a window that a rewrite does with fewer products: the outputs, or taps, that its tiles may have in each
    direction, and the two axes that slide. `in_calls`: the tiles whose filters may be transformed in each call (filters.py).
    `dilated`: that the window has gaps, and is made one without them first (space_to_batch)."""

    rewrite: str
    tiles: tuple[int, ...]
    stage: str
    rows: str
    columns: str
    in_calls: tuple[int, ...] = ()
    dilated: bool = False

    def arguments(self, tile: int, in_calls: bool = False) -> dict[str, object]:
        """Returns the arguments of the rewrite."""
        sizes: dict[str, object] = {} if self.rewrite == INTEGERS else {"tile": tile}
        halves = {"halves": True} if in_calls else {}
        return {"stage": self.stage, "rows": self.rows, "columns": self.columns, **sizes, **halves}


@dataclass(frozen=True, slots=True)
class Transform:
    """The parts of a transform.

    `written`: spatial axis -> how many of its points are written out together (0: all). `data`: the read of what is no table.
    """

    vector: str
    written: dict[str, int]
    data: Read


def transform_of(program: Program, stage: Stage) -> Transform | None:
    """Returns the parts of a transform of what calls compute, or None for any other stage."""
    return None if stage.name in constant_tensors(program) else any_transform_of(program, stage)


def any_transform_of(program: Program, stage: Stage) -> Transform | None:
    """Returns the parts of a transform, of constants too, or None for any other stage."""
    tables = {table.tensor.name for table in program.tables}
    reads = stage.reads()
    coefficients = [r for r in reads if r.tensor in tables]
    data = [r for r in reads if r.tensor not in tables]
    if stage.combiner != "sum" or not coefficients or len(data) != 1:
        return None
    if any(not any(depends(r, a.name) for r in coefficients) for a in stage.reduction):
        return None
    written: dict[str, int] = {}
    for read in coefficients:
        for index in read.indices:
            found = _found_by(index)
            if found is None:
                return None
            name, points = found
            if any(a.name == name for a in stage.axes):
                written[name] = points
    vectors = [a.name for a in stage.axes if output_stride(stage, a.name) == 1 and a.extent > 1]
    terms = prod(written[a.name] or a.extent for a in stage.axes if a.name in written)
    terms *= prod(a.extent for a in stage.reduction)
    if not vectors or vectors[0] in written or terms > TERMS_AT_MOST:
        return None
    return Transform(vectors[0], written, data[0])


def _found_by(index: object) -> tuple[str, int] | None:
    """Returns (axis, points) for an index that is an axis (0 points: all of them) or its remainder by a number of points."""
    if isinstance(index, Var):
        return index.name, 0
    match index:
        case Op(name="mod", args=(Var(name=name), Const(value=points))):
            return name, int(points)
    return None


def _prepare(s: Schedule, decided: Decided) -> Decided:
    return _rewritten(s, decided) if decided.fast else decided


def _rewritten(s: Schedule, decided: Decided) -> Decided:
    """Makes, perhaps, a fast convolution. Then turns all transforms so that their vectors lie along memory."""
    for stage in s.program.stages:
        found = _fast(s.program, stage, multiplies_halves_alone(decided.instructions))
        if found is not None and s.allows(found.rewrite):
            tile = s.variant(f"{stage.name} fast", [0, *found.tiles])
            if tile:
                in_calls = tile in found.in_calls and s.variant(f"{stage.name} filters in calls", [False, True])
                if found.dilated:
                    found = _without_gaps(s, found)
                s.rewrite(found.rewrite, **found.arguments(tile, in_calls))
                decided = decided.noting(WordsAsked()) if found.rewrite == INTEGERS else decided
            break
    while _turn_one(s):
        pass
    return decided


@lru_cache(maxsize=64)  # each combination of variants asks again
def _fast(program: Program, stage: Stage, halves: bool) -> FastWindow | None:
    """Returns a fast convolution that applies and may pay. `halves`: whether bytes are multiplied as halves."""
    window = window_of(program, stage)
    if window is None or window.lines is None:
        return None
    found = (_few_taps(program, stage, window, window.lines, halves), _many_taps(stage, window, window.lines))
    fast = next((one for one in found if one is not None and _applies(program, one)), None)
    return _fast_with_gaps(program, stage, window.lines, window.rows) if fast is None else fast


def _fast_with_gaps(program: Program, stage: Stage, rows: str, columns: str) -> FastWindow | None:
    """Returns the fast convolution of a window with gaps, whose images are those of every d-th pixel."""
    try:
        batched = space_to_batch(program, stage.name, rows, columns)
    except ProgramError:
        return None
    found = _fast(batched, _batch_of(batched, program.stages.index(stage)), False)
    return None if found is None else replace(found, stage=stage.name, rows=rows, columns=columns, dilated=True)


def _without_gaps(s: Schedule, found: FastWindow) -> FastWindow:
    """Makes the window with gaps one without, and returns its fast convolution."""
    place = [stage.name for stage in s.program.stages].index(found.stage)
    s.rewrite("space_to_batch", stage=found.stage, rows=found.rows, columns=found.columns)
    fast = _fast(s.program, _batch_of(s.program, place), False)
    assert fast is not None
    return fast


def _batch_of(program: Program, place: int) -> Stage:
    """Returns the window over all images of every d-th pixel, which stands behind the images."""
    return program.stages[place + 1]


def _applies(program: Program, found: FastWindow) -> bool:
    try:
        apply_rewrite(program, found.rewrite, found.arguments(found.tiles[-1]))
    except ProgramError:
        return False
    return True


def _many_taps(stage: Stage, window: WindowRoles, lines: str) -> FastWindow | None:
    """Returns a sum of many taps with few results that may pay: where each transformed number is multiplied often."""
    few = [stage.axis(name).extent for name in (lines, window.rows)]
    many = [stage.axis(name).extent for name in window.windows]
    columns = stage.axis(window.vector).extent
    rows = prod(stage.axis(name).extent for name in window.others if not depends(window.weights, name))
    if few != [RESULTS] * 2 or len(many) != 2 or min(many) <= max(TILES_OF_TAPS) or min(rows, columns) < DEPTH_AT_LEAST:
        return None
    if stage.tensors[0].dtype not in EXACT:
        return None
    return FastWindow("winograd_taps", TILES_OF_TAPS, stage.name, lines, window.rows)


def _few_taps(program: Program, stage: Stage, window: WindowRoles, lines: str, halves: bool) -> FastWindow | None:
    """Returns a sum of few taps with many results that may pay. `halves`: whether bytes are multiplied as halves."""
    if len(stage.reduction) < 3:
        return None
    depth = prod(a.extent for a in stage.reduction if a.name in window.depth)
    if depth < DEPTH_AT_LEAST or stage.axis(window.vector).extent < DEPTH_AT_LEAST:
        return None
    if stage.tensors[0].dtype in EXACT:
        in_calls = TILES[:1] if _pays_in_calls(program, stage, lines, window.rows) else ()
        return FastWindow("winograd", TILES, stage.name, lines, window.rows, in_calls)
    if halves and stage.tensors[0].dtype == i32:
        return FastWindow(INTEGERS, TILES_OF_INTEGERS, stage.name, lines, window.rows)
    return None


def _pays_in_calls(program: Program, stage: Stage, lines: str, rows: str) -> bool:
    """Tells whether the largest tiles may be worth transforming the filters for in each call: these are a large constant, and
    there are many tiles."""
    filters = [read for read in stage.reads() if not depends(read, lines) and not depends(read, rows)]
    if len(filters) != 1 or filters[0].tensor not in constant_tensors(program):
        return False
    tile, own = TILES[0], (lines, rows)
    others = [axis.extent for axis in stage.axes if axis.name not in own and not depends(filters[0], axis.name)]
    tiles = prod(others) * prod(-(-stage.axis(name).extent // tile) for name in own)
    points = (tile + 2) ** 2 / 3**2
    return tiles >= TILES_AT_LEAST and points * prod(program.tensors[filters[0].tensor].shape) >= FILTERS_AT_LEAST


def _turn_one(s: Schedule) -> bool:
    """Puts the result or the data of one transform in the order of its vectors; returns whether there was one."""
    program = s.program
    for stage in program.stages:
        if stage.combiner != "sum" or not any(
            r.tensor in {t.tensor.name for t in program.tables} for r in stage.reads()
        ):
            continue
        data = [r for r in stage.reads() if r.tensor not in {t.tensor.name for t in program.tables}]
        if len(data) != 1 or all(r.tensor in {t.name for t in program.constant_inputs} for r in data):
            continue
        (read,) = data
        along = _last_axis(program, read)
        moved = [a.name for a in stage.axes if a.extent > 1 and output_stride(stage, a.name) == 1]
        computed = read.tensor in program.producers
        if computed and along is not None and moved and along != moved[0] and any(a.name == along for a in stage.axes):
            kept = [a.name for a in stage.axes if a.name != along]
            s.rewrite("reorder_axes", stage=stage.name, axes=[*kept, along])
            return True
        if not computed and moved and element_stride(program, read, moved[0]) not in (0, 1):
            place = plain_dimension(read, moved[0])
            if place is None:
                continue
            rest = [n for n in range(len(read.indices)) if n != place]
            # Rows of so few points are no squares to turn; all that lies behind each other may be.
            narrow = {"merge": True} if program.tensors[read.tensor].shape[-1] < NARROWEST else {}
            s.rewrite("reorder_reads", stage=stage.name, tensor=read.tensor, dimensions=[*rest, place], **narrow)
            return True
    return False


def _last_axis(program: Program, read: Read) -> str | None:
    """Returns the axis along which a read is contiguous."""
    last = read.indices[-1] if read.indices else None
    return last.name if isinstance(last, Var) else None


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    return stage.name if transform_of(program, stage) is not None else None


def _apply(s: Schedule, name: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules a transform as the root, and the one that feeds it."""
    found, feeder = with_feeder(s.program, name, decided.taken)
    around, at = written_out(s, s.stage(name), found)
    s.parallel(*around)
    return {name} | fed_at(s, feeder, at)


def fed_at(s: Schedule, feeder: str | None, at: LoopHandle) -> set[str]:
    """Schedules the transform that feeds another, if there is one, at a loop; returns what was scheduled."""
    if feeder is None:
        return set()
    found = transform_of(s.program, s.program.stage(feeder))
    assert found is not None
    written_out(s, s.compute_at(feeder, at), found)
    return {feeder}


def kept_transforms(program: Program) -> frozenset[str]:
    """Returns transforms, and the reordered data that they read: these stay stages of their own, which no other takes in."""
    found = set()
    for stage in program.stages:
        transform = transform_of(program, stage)
        if transform is not None:
            found |= {stage.name} if _lies_along(program, transform) else {stage.name, transform.data.tensor}
    return frozenset(found)


def _lies_along(program: Program, transform: Transform) -> bool:
    """Says whether the data are only moved, and lie along the vectors in what they are moved from as well."""
    producer = program.producers.get(transform.data.tensor)
    if producer is None or not moves_data_only(producer) or len(producer.reads()) != 1:
        return False
    place = plain_dimension(transform.data, transform.vector)
    return place is not None and element_stride(program, producer.reads()[0], producer.axes[place].name) == 1


def written_out(s: Schedule, stage: StageHandle, found: Transform) -> tuple[list[LoopHandle], LoopHandle]:
    """Writes a transform out; returns the loops around it, and the innermost of them."""
    definition = stage.definition
    loops = {a.name: loop for a, loop in zip(definition.all_axes, stage.loops, strict=True)}
    around: list[LoopHandle] = []
    first: list[LoopHandle] = []
    last: list[LoopHandle] = []
    for axis in definition.axes:
        if axis.name == found.vector:
            continue
        points = found.written.get(axis.name)
        if points is None:
            around.append(loops[axis.name])
        elif points == 0:
            place = last if _is_summed_beside(definition, axis.name) else first
            place.append(loops[axis.name])
        else:
            outer, inner = s.split(loops[axis.name], points)
            around.append(outer)
            last.append(inner)
    vectors = s.split(loops[found.vector], s.lanes(definition.tensors[0].dtype))
    sums = [piece for axis in definition.reduction for piece in s.split(loops[axis.name], loops[axis.name].extent)]
    s.reorder(*around, vectors[0], *first, *sums, *last, vectors[1])
    s.unroll(*first, *sums[1::2], *last)
    s.vectorize(vectors[1])
    return around, vectors[0]


def _is_summed_beside(stage: Stage, axis: str) -> bool:
    """Tells whether the axis stands in the same coefficient as a reduction axis: its points share the data of a term then."""
    summed = {a.name for a in stage.reduction}
    for read in stage.reads():
        names = set().union(*(variables(index) for index in read.indices))
        plain = all(len(affine(index).terms) <= 1 for index in read.indices)
        if axis in names and names & summed and len(names) == 2 and plain:
            return True
    return False


def with_feeder(program: Program, name: str, taken: Set[str]) -> tuple[Transform, str | None]:
    """Returns the parts of a transform and the transform that feeds it, if there is one.

    What the feeder writes out is needed at one place, so the transform writes out the same points.
    """
    stage = program.stage(name)
    found = transform_of(program, stage)
    assert found is not None
    feeder = _feeder(program, found, taken)
    inner = None if feeder is None else transform_of(program, feeder)
    if feeder is None or inner is None:
        return found, None
    written, own = dict(found.written), {axis.name for axis in stage.axes}
    for index, axis in zip(found.data.indices, feeder.axes, strict=True):
        if axis.name in inner.written and isinstance(index, Var) and index.name in own:
            written.setdefault(index.name, inner.written[axis.name])
    return replace(found, written=written), feeder.name


def _feeder(program: Program, found: Transform, taken: Set[str]) -> Stage | None:
    """Returns the stage whose result the transform alone reads: point by point along the axes that neither writes out, and at
    one place for all points of a tile that it writes out."""
    producer = program.producers.get(found.data.tensor)
    if producer is None or producer.name in taken or producer.name in program.outputs:
        return None
    if len(program.consumers[producer.name]) != 1:
        return None
    return producer if all(_is_fed(index, found.written) for index in found.data.indices) else None


def _is_fed(index: object, written: Mapping[str, int]) -> bool:
    match index:
        case Op(name="floordiv", args=(Var(name=name), Const(value=points))):
            return written.get(name) == points
    return isinstance(index, Var)


TRANSFORM = Rule("transform", _prepare, _matches, _apply)
TRANSFORMS_APART = Rule("transforms apart", nests_of_their_own(kept_transforms))
