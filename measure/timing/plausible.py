"""Times that no machine can reach: a clock that did not run, or a kernel that computed nothing.

Only what cannot be left out is counted: two operations for each product that a matrix product sums, each output byte once, and
each byte of an input that is read whole. A convolution is not counted, because Winograd's algorithm saves most of its products;
nor is what conditions on axes leave out. So a time is refused only when it is surely wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...schedules.useful import points_of_use, useful
from ...targets.ceilings import Ceilings
from ...tensor.dtype import DTYPES
from ...tensor.expr import Const, Op, Read, Var, children
from ...tensor.indices.bounds import Bound
from ...tensor.program import Program, Stage, Tensor

MARGIN = 1.5  # a ceiling is itself a measurement


def too_fast(program: Program, seconds: float, ceilings: Ceilings | None) -> str | None:
    """Says why a time cannot be true, or None."""
    if ceilings is None:
        return None
    bounds = useful(program)
    for dtype in (name for name in ceilings.flops if name in DTYPES):
        peak = ceilings.highest(dtype)
        flops = sum(
            _operations(stage, bounds.get(stage.name, ()))
            for stage in program.stages
            if stage.bodies[0].dtype.name == dtype
        )
        if flops / peak > MARGIN * seconds:
            return (
                f"{flops / seconds:.3g} FLOP/s is {flops / seconds / peak:.1f} times the ceiling of {dtype} arithmetic"
            )
    written = sum(prod(program.tensors[name].shape) * program.tensors[name].dtype.bytes for name in program.outputs)
    fastest = max(speed for _, speed in ceilings.bandwidth)
    if written / fastest > MARGIN * seconds:
        return f"writing {written / seconds:.3g} B/s is {written / seconds / fastest:.1f} times the fastest cache"
    read = sum(prod(tensor.shape) * tensor.dtype.bytes for tensor in _read_whole(program, bounds))
    if read / fastest > MARGIN * seconds:
        return f"reading {read / seconds:.3g} B/s is {read / seconds / fastest:.1f} times the fastest cache"
    return None


def _read_whole(program: Program, bounds: Mapping[str, tuple[Bound, ...]]) -> list[Tensor]:
    """Inputs of which some stage that runs at all its points reads every element, under no condition."""
    found = {}
    for stage in program.stages:
        extents = {axis.name: axis.extent for axis in stage.all_axes}
        for read in _always_read(stage) if not bounds.get(stage.name) else ():
            names = [index.name for index in read.indices if isinstance(index, Var)]
            if len(set(names)) == len(read.indices):
                found[read.tensor, tuple(extents[name] for name in names)] = read.tensor
    return [tensor for tensor in program.dynamic_inputs if (tensor.name, tensor.shape) in found]


def _always_read(stage: Stage) -> list[Read]:
    """Reads that stand outside of the arms of every choice."""
    found, waiting = [], list(stage.expressions)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Read):
            found.append(node)
        waiting += node.args[:1] if isinstance(node, Op) and node.name == "select" else children(node)
    return found


def _operations(stage: Stage, bounds: tuple[Bound, ...]) -> int:
    """Multiplications and additions of a product of two tensors, summed; 0 for all else."""
    match stage.bodies[0]:
        case Op(name="mul", args=(Read() as left, Read() as right)) if stage.combiner == "sum":
            indices = (*left.indices, *right.indices)
            plain = all(isinstance(index, Var | Const) for index in indices)
            return 2 * points_of_use(stage, bounds) if plain else 0
    return 0
