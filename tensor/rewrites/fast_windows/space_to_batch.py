"""space_to_batch: a window with gaps becomes one without, over d x d images of every d-th pixel.

    y[p, q, o] = sum[c, r, s](x[p + d r, q + d s, c] * w[o, c, r, s])        p: P, q: Q
    ->  y_images[n, i, j, c]  = x[d i + n // d, d j + n % d, c]        n: d * d, i: P / d + 2, j: Q / d + 2
        y_batch[n, p, q, o]   = sum[c, r, s](y_images[n, p + r, q + s, c] * w[o, c, r, s])        p: P / d, q: Q / d
        y[p, q, o]            = y_batch[p % d * d + q % d, p // d, q // d, o]

Points of the window that are d pixels apart never meet pixels of another image. What is known of windows without gaps holds for
`y_batch` then, as that its 3x3 sums take fewer products (winograd.py). A border is in the images. Named as in TensorFlow.
"""

from __future__ import annotations

from dataclasses import replace

from ...expr import Expr, Read
from ...program import Axis, Program
from ...stage_edits import find_stage, product, result_of, with_stages
from .sliding import SlidingSum

NO_GAPS = "this stage has no window with gaps"


def space_to_batch(program: Program, stage: str, rows: str, columns: str) -> Program:
    """A window with gaps becomes one without.

    Args:
        stage: a sum of products in which, for each of the two axes, the data are read at axis + d * window, with the same
            d > 1, and the filter at window alone.
        rows, columns: the two axes that slide.

    Stages made: STAGE_images[n, outer axes of the data, i, j, reduced axes], STAGE_batch[n, axes], and the stage itself.
    Errors: ProgramError where the stage is none such.
    """
    found = find_stage(program, stage)
    parts = SlidingSum(program, found, (rows, columns), NO_GAPS, dilated=True)
    gap = parts.windows[0].dilation
    number = Axis(parts.fresh("n"), gap * gap)
    counts = {window.output.name: -(-window.output.extent // gap) for window in parts.windows}
    i, j = (
        Axis(parts.fresh(name), counts[window.output.name] + window.window.extent - 1)
        for name, window in zip(("i", "j"), parts.windows, strict=True)
    )
    outer, reduced = parts.data_axes()
    axes = (number, *outer, i, j, *reduced)
    data = parts.data_at(i.var, j.var, axes, (number.var // gap, number.var % gap))
    images = parts.made("images", axes, data, ())
    smaller = tuple(replace(axis, extent=counts.get(axis.name, axis.extent)) for axis in found.axes)
    slid = {place: w.output.var + w.window.var for place, w in zip((i, j), parts.windows, strict=True)}
    seen = Read(images.name, tuple(slid.get(axis, axis.var) for axis in images.axes), images.tensors[0].dtype)
    batch = parts.made("batch", (number, *smaller), product([seen, *parts.filter]), found.reduction)
    first, second = (window.output.var for window in parts.windows)
    places: dict[str, Expr] = {window.output.name: window.output.var // gap for window in parts.windows}
    indices = (first % gap * gap + second % gap, *(places.get(a.name, a.var) for a in found.axes))
    body = replace(result_of(batch), indices=indices)
    return with_stages(program, {stage: (images, batch, replace(found, bodies=(body,), reduction=(), combiner=None))})
