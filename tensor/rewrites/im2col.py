"""im2col: a factor of a product becomes a tensor of its own, over the axes that it depends on.

A convolution y[n, o, p, q] = sum[c, r, s](x[n, c, p + r, q + s] * w[o, c, r, s]) becomes a plain product of the matrix
x_columns[n, p, q, c, r, s] and w. After merge_axes of p, q and of c, r, s both are matrices; attached at a tile by the
schedule, x_columns is the implicit GEMM of Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, 2014.
"""

from __future__ import annotations

from dataclasses import replace

from ..expr import Cast, Expr, reads, variables
from ..program import Program, Stage, Tensor
from ..stage_edits import factors, find_stage, free_name, product, refuse, result_of, shape_of, with_stages


def im2col(program: Program, stage: str, tensor: str, narrow: bool = False) -> Program:
    """The factors of a reduction's body that read `tensor` become the stage TENSOR_columns.

    Its axes are those that the factors use, in the order of the stage, spatial ones first. `narrow`: the factor is a cast,
    which stays in the product, so that the new tensor holds what is cast.
    Errors: ProgramError where the stage is no sum, nothing of it reads `tensor`, or the factors use every axis.
    """
    old = find_stage(program, stage)
    if old.combiner != "sum":
        raise refuse(old, "im2col needs a sum of products", found=f"a stage with combiner {old.combiner}")
    parts = factors(old.bodies[0])
    chosen = [part for part in parts if any(read.tensor == tensor for read in reads(part))]
    if not chosen:
        raise refuse(old, f"no factor of the product reads {tensor!r}")
    body = product(chosen)
    cast = body.dtype
    if narrow:
        if not isinstance(body, Cast):
            raise refuse(old, f"the factor that reads {tensor!r} is no cast", found=f"a factor of {body.dtype}")
        body = body.arg
    used = variables(body)
    if all(axis.name in used for axis in old.all_axes):
        raise refuse(old, f"the factors that read {tensor!r} use every axis of the stage", advice="nothing is reused")
    axes = tuple(axis for axis in old.all_axes if axis.name in used)
    columns = Tensor(free_name(program, f"{tensor}_columns"), body.dtype, shape_of(axes))
    first = Stage((columns,), axes, (body,), origin=old.origin)
    read: Expr = result_of(first).cast(cast) if narrow else result_of(first)
    # the product keeps its order; the tensor stands where the first of its factors stood
    rest = [read if part is chosen[0] else part for part in parts if part is chosen[0] or part not in chosen]
    return with_stages(program, {old.name: (first, replace(old, bodies=(product(rest),)))})
