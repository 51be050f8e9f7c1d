"""widen_reads: what a stage reads of a narrow tensor as f32 becomes a tensor of f32.

    C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))                 A and B of bf16
    ->  A_wide[i, k] = f32(A[i, k])
        C[i, j] = sum[k](A_wide[i, k] * f32(B[k, j]))

Each element becomes f32 once, and not once for each term that it is in. f32 holds all narrow numbers, so that no value changes.
"""

from __future__ import annotations

from ..dtype import f32
from ..expr import Cast, Expr, Read, rewrite, walk
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import find_stage, free_name, map_stage, refuse, with_stages

NARROW_BITS = 16


def can_widen_reads(stage: Stage, tensor: str) -> bool:
    """Says whether a stage reads a narrow tensor, and nothing of it but as f32."""
    nodes = [node for expression in stage.expressions for node in walk(expression)]
    reads = [node for node in nodes if isinstance(node, Read) and node.tensor == tensor]
    return bool(reads) and len(reads) == sum(_is_wide(node, tensor) for node in nodes)


def _is_wide(node: Expr, tensor: str) -> bool:
    match node:
        case Cast(arg=Read() as read, dtype=dtype):
            return read.tensor == tensor and dtype == f32 and read.dtype.bits <= NARROW_BITS
    return False


def widen_reads(program: Program, stage: str, tensor: str) -> Program:
    """Reads of `tensor` in a stage, each cast to f32, become reads of the new stage TENSOR_wide.

    Errors: ProgramError where it reads the tensor in another way, or not at all.
    """
    old = find_stage(program, stage)
    if not can_widen_reads(old, tensor):
        raise refuse(old, f"{tensor!r} is not read as f32 alone", expected="f32 of reads of narrow elements")
    given = program.tensors[tensor]
    axes = tuple(Axis(f"d{n}", size) for n, size in enumerate(given.shape))
    wide = Tensor(free_name(program, f"{tensor}_wide"), f32, given.shape)
    element = Read(tensor, tuple(axis.var for axis in axes), given.dtype).cast(f32)

    def widened(node: Expr) -> Expr | None:
        match node:
            case Cast(arg=Read(tensor=name, indices=indices)) if name == tensor:
                return Read(wide.name, indices, f32)
        return None

    changed = map_stage(old, lambda expr: rewrite(expr, widened))
    return with_stages(program, {old.name: (Stage((wide,), axes, (element,), origin=old.origin), changed)})


def is_widening(stage: Stage) -> bool:
    """Says whether a stage is a narrow tensor as f32, and nothing else."""
    match stage.bodies:
        case (Cast(arg=Read(tensor=tensor, indices=indices)),) if not stage.reduction:
            return can_widen_reads(stage, tensor) and indices == tuple(axis.var for axis in stage.axes)
    return False
