"""Rules that derive sketches for any program. No rule reads an operator's name, its origin or a fixed number of stages.

first rewrites of the program:
split       a reduction that is several times longer than its result has points: parts of it are independent, and
            a second stage combines them
fast        a 3x3 window with reuse: perhaps fewer products, between transforms               (rules/cpu/transform.py)
matrix      sums of products as words for a matrix unit, where the target has one   (rules/cpu/matrix.py)
borders     guarded reads of sliding windows read a tensor with a border    (rules/cpu/window.py, rules/cpu/slide.py)
then
inline      what is cheap, and what only moves data                                  (rules/inline.py)
then, from the outputs back, each stage that is not taken yet becomes a root, and takes in what it can:
rows        a product of a product, with something of each row between: block by block of rows (rules/cpu/rows.py)
asked       what decides whether sums that stand in are asked for                    (rules/cpu/exceptional.py)
transform   sums with coefficients of the text, written out                          (rules/cpu/transform.py)
window      a reduction with reuse whose data slide: convolutions                    (rules/cpu/window.py)
slide       a small window without reuse: depthwise, pooling, stencils               (rules/cpu/slide.py)
tile        a reduction with reuse, or the pointwise consumer of one (its epilogue): multi-level tiling, register tiles,
            packed operands                                                          (rules/cpu/tile.py)
online      a weighted softmax along a long axis, block by block: products right before each step of a fold
            (rules/cpu/online.py)
fold        steps in their order, independent points in parallel and in vectors      (rules/cpu/fold.py)
stream      anything else: contiguous axis in vectors, rows in parallel; producers whose values belong to one row run
            inside of it                                                             (rules/cpu/stream.py)

GPUs have rules of their own, with the same parts: rules/gpu/derive.py.
"""

from __future__ import annotations

from functools import partial
from math import prod

from ..tensor.accuracy import Accuracy
from ..tensor.exceptional import asked_for
from ..tensor.program import Program, Stage
from .access import is_anchor, output_stride
from .prepared import constant_tensors
from .rules.cpu.exceptional import apply_asked, asked_about
from .rules.cpu.fold import apply_fold, prepare_folds
from .rules.cpu.matrix import (
    apply_products,
    choosing,
    finishes_products,
    kept_products,
    pack_for_products,
    packed_of,
    prepare_matrix,
    products_of,
)
from .rules.cpu.online import apply_online, prepare_online
from .rules.cpu.rows import apply_together, kept_together, together_of
from .rules.cpu.slide import apply_slide, finished_slide, pieces_of_slides, prepare_slides, slide_of
from .rules.cpu.stream import stream_group
from .rules.cpu.tile import can_tile, epilogue_of, tile
from .rules.cpu.transform import (
    apply_choice,
    apply_transform,
    chooses_transform,
    kept_transforms,
    prepare_transforms,
    transform_of,
)
from .rules.cpu.window import finishes, pieces_of_data, prepare_windows, tile_window, window_of
from .rules.gpu.derive import gpu_automatic
from .rules.inline import inline_cheap
from .schedule import Schedule, trace
from .sketch import UNSCHEDULED, Sketch

PARTS = (8, 64)  # for a few threads, and for many
LONG = 4  # how many times longer than the result a reduction is split
MOST = 96  # sketches: each variant of several large stages is tried, and not every combination of all of them
FEWEST = 8  # sketches of a program of many stages, each of which is walked in each sketch
WALKED = 6144  # stages of all sketches together
SHORTEST_PART = 1024  # terms: what is shorter is done before a second stage has begun


def derive(
    program: Program, kind: str = "", matrix_unit: bool = False, accuracy: Accuracy = "default"
) -> tuple[Sketch, ...]:
    """The sketches of a program in canonical, normalised form; the unscheduled nest comes first.

    `kind`: of the target; "cuda" asks for kernels of blocks and threads, any other one for the loops of a processor core.
    `matrix_unit`: whether its cores have one that takes bf16. `accuracy`: what they may do to the arithmetic.
    """
    template = gpu_automatic if kind == "cuda" else partial(automatic, matrix_unit=matrix_unit)
    most = min(MOST, max(FEWEST, WALKED // len(program.stages)))
    return (UNSCHEDULED, *trace(template, program, "auto", most, accuracy))


def automatic(s: Schedule, matrix_unit: bool = False, fast: bool = True) -> None:
    """The template behind `derive`. `fast`: whether convolutions may be done with fewer products."""
    split = _split_depth(s)
    prepare_folds(s)
    if fast:
        prepare_transforms(s)
    if matrix_unit:
        prepare_matrix(s)
    prepare_windows(s)
    prepare_slides(s)
    online = prepare_online(s)
    about = asked_about(s.program)
    kept = kept_transforms(s.program) | kept_products(s.program) | about
    rows = together_of(s.program) if online is None else None
    shared = frozenset(() if online is None else online.members)
    shared = shared if rows is None else kept_together(s.program, rows)
    if rows is not None and not s.variant(f"{rows.root} by rows", [True] if shared else [True, False]):
        rows, shared = None, frozenset()
    inline_cheap(s, pieces_of_data(s.program) | pieces_of_slides(s.program) | kept | shared)
    kept |= choosing(s.program)
    taken: set[str] = set()
    alone = frozenset(() if rows is None else (rows.root,))  # what finishes it runs after it: no tile takes it in
    ready = constant_tensors(s.program)
    few = split or sum(is_anchor(stage) for stage in s.program.stages) > 1
    for stage in reversed(s.program.stages):
        if stage.name in taken:
            continue
        if online is not None and stage.name == online.root:
            taken |= apply_online(s, online)
        elif rows is not None and stage.name == rows.root:
            taken |= apply_together(s, rows)
        elif stage.name in ready:
            _prepared(s, stage)
        elif stage.name in about:
            taken |= apply_asked(s, stage.name, about)
        else:
            taken |= _root(s, stage, taken | alone, kept, few)


def _root(s: Schedule, stage: Stage, taken: set[str], kept: frozenset[str], few: bool) -> set[str]:
    """One stage with what it takes in, by the first rule that fits; returns the stages taken. `few`: only usual structures."""
    if stage.fold is not None:
        return apply_fold(s, stage.name)
    products = stage if products_of(stage) is not None else finishes_products(s.program, stage, taken)
    if products is not None:
        return apply_products(s, stage.name, products.name)
    if packed_of(s.program, stage.name):
        return pack_for_products(s, stage.name)
    chosen = chooses_transform(s.program, stage, taken)
    if chosen is not None:
        return apply_choice(s, stage.name, chosen.name)
    if transform_of(s.program, stage) is not None:
        return apply_transform(s, stage.name, taken)
    window = finishes(s.program, stage, taken)
    if window is not None or window_of(s.program, stage) is not None:
        return tile_window(s, stage.name, stage.name if window is None else window.name)
    slide = finished_slide(s.program, stage, taken)
    if slide is not None or slide_of(s.program, stage) is not None:
        return apply_slide(s, stage.name, stage.name if slide is None else slide.name)
    anchor = epilogue_of(s.program, stage, taken, can_tile)
    if anchor is not None or can_tile(s.program, stage, stage):
        name = stage.name if anchor is None else anchor.name
        tile(s, stage.name, name, few)
        return {stage.name, name}
    return stream_group(s, stage.name, taken | kept, bool(kept))


def _prepared(s: Schedule, stage: Stage) -> None:
    """What is computed when the kernel is made need not be quick: vectors, so that its code is short; a fold as it is."""
    if stage.fold is not None:
        return
    vectors = [
        loop
        for a, loop in zip(stage.axes, s.stage(stage.name).loops, strict=False)
        if output_stride(stage, a.name) == 1
    ]
    if vectors:
        s.vectorize(s.split(vectors[-1], s.lanes(stage.tensors[0].dtype))[1])


def _split_depth(s: Schedule) -> bool:
    """Parts of the only long reduction with a small result: its other axes give threads too little to share.

    True if it has been split.
    """
    found = [stage for stage in s.program.stages if _is_long(stage)]
    if len(found) != 1:
        return False
    longest = max(found[0].reduction, key=lambda a: a.extent)
    options = [1, *(parts for parts in PARTS if longest.extent >= parts * SHORTEST_PART)]
    parts = s.variant(f"split {found[0].name}", options) if len(options) > 1 else 1
    if parts > 1:
        s.rewrite("split_k", stage=found[0].name, axis=longest.name, parts=parts)
    return parts > 1


def _is_long(stage: Stage) -> bool:
    if stage.combiner in (None, "fold") or asked_for(stage) is not None:
        return False
    points = prod(a.extent for a in stage.axes)
    return prod(a.extent for a in stage.reduction) >= LONG * points
