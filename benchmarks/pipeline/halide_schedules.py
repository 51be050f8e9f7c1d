"""Pipelines in Halide, scheduled by its autoschedulers or by hand, as the apps of its authors are.

`by hand`: the last stage in strips of 32 rows for the threads, the stages before it kept in a strip and computed row by row as
windows that slide, all in vectors. That is how Halide's apps schedule blur, unsharp and harris; a long chain has tiles instead
(stencil_chain). Others bring schedules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import halide as hl
import numpy as np

from pipeline.halide import PIPELINES, C, Pipeline, X, Y, Z
from pipeline.halide_images import IMAGES
from pipeline.halide_layers import LAYERS

LONG = 4  # stages beyond which a chain is tiled


def by_hand(pipeline: Pipeline, target: Any) -> None:
    """Schedules a pipeline as the head of this file says."""
    if pipeline.schedule is not None:
        pipeline.schedule(target)
        return
    narrow = pipeline.output.type().bits() < 32
    lanes = target.natural_vector_size(hl.Int(16) if narrow else hl.Float(32))
    output, last = pipeline.output, pipeline.output.args()
    if len(last) == 3 and last[2].name() == Z.name():
        _strips(pipeline, output, Z, 8, lanes)
    elif len(pipeline.stages) >= LONG and last[-1].name() != C.name():
        xi, yi = hl.Var("xi"), hl.Var("yi")
        output.tile(X, Y, xi, yi, 512, 64).parallel(Y).vectorize(xi, lanes)
        for stage in pipeline.stages:
            stage.store_at(output, X).compute_at(output, yi).vectorize(X, lanes)
    else:
        if last[-1].name() == C.name():
            output.reorder(X, C, Y)
        _strips(pipeline, output, Y, 32, lanes)


def _strips(pipeline: Pipeline, output: Any, axis: Any, rows: int, lanes: int) -> None:
    strip = hl.Var("strip")
    output.split(axis, strip, axis, rows).parallel(strip).vectorize(X, lanes)
    for stage in pipeline.stages:
        stage.store_at(output, strip).compute_at(output, axis).vectorize(X, lanes)


def automatically(pipeline: Pipeline, scheduler: str, target: Any, threads: int) -> None:
    """Lets one of Halide's own schedulers do it. Errors: RuntimeError where it cannot."""
    hl.load_plugin(str(Path(hl.__file__).parent / "lib64" / f"libautoschedule_{scheduler.lower()}.so"))
    hl.Pipeline(pipeline.output).apply_autoscheduler(
        target, hl.AutoschedulerParams(scheduler, {"parallelism": str(threads)})
    )


def prepared(
    name: str, way: str, arrays: Sequence[np.ndarray], output: np.ndarray, threads: int
) -> Callable[[], object]:
    """A pipeline on these arrays, compiled: what runs it. Errors: RuntimeError where Halide cannot, or has no such schedule."""
    if way == "by hand" and name in LAYERS:
        raise RuntimeError("its apps have no schedule of this")
    pipeline, target = (PIPELINES | IMAGES | LAYERS)[name](), hl.get_host_target()
    sources = (pipeline.source, *pipeline.more)
    for source, array in zip(sources, arrays, strict=True):
        for number, extent in enumerate(reversed(array.shape)):
            source.dim(number).set_estimate(0, extent)
    for variable, extent in zip(pipeline.output.args(), reversed(pipeline.shape), strict=True):
        pipeline.output.set_estimate(variable, 0, extent)
    if way == "by hand":
        by_hand(pipeline, target)
    else:
        automatically(pipeline, way, target, threads)
    for source, array in zip(sources, arrays, strict=True):
        source.set(hl.Buffer(array))
    pipeline.output.compile_jit(target)
    buffer = hl.Buffer(output)
    return lambda: pipeline.output.realize(buffer)
