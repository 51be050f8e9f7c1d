"""Rewrites: programs to programs that compute the same. The registry by which sketches name them.

A rewrite is a pure function of a program and plain arguments (names of tensors and axes, numbers). Inputs and outputs stay
the same arrays in memory; their shapes may lose dimensions (merge_axes). Sums may be done in another order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches

from ..common.errors import ProgramError
from .bf16_products import bf16_products
from .block_softmax import block_softmax
from .fold_lanes import fold_lanes
from .im2col import im2col
from .normalise import normalise
from .online_softmax import online_softmax
from .pad_reads import pad_reads
from .program import Program
from .reorder_axes import reorder_axes, reorder_reads
from .rewrite_axes import merge_axes, pad_axis, split_k
from .winograd import winograd

__all__ = [
    "REWRITES",
    "apply_rewrite",
    "bf16_products",
    "block_softmax",
    "fold_lanes",
    "im2col",
    "merge_axes",
    "normalise",
    "online_softmax",
    "pad_axis",
    "pad_reads",
    "reorder_axes",
    "reorder_reads",
    "split_k",
    "winograd",
]

REWRITES: dict[str, Callable[..., Program]] = {
    "bf16_products": bf16_products,
    "block_softmax": block_softmax,
    "fold_lanes": fold_lanes,
    "im2col": im2col,
    "merge_axes": merge_axes,
    "normalise": normalise,
    "online_softmax": online_softmax,
    "pad_axis": pad_axis,
    "pad_reads": pad_reads,
    "reorder_axes": reorder_axes,
    "reorder_reads": reorder_reads,
    "split_k": split_k,
    "winograd": winograd,
}


def apply_rewrite(program: Program, name: str, arguments: Mapping[str, object]) -> Program:
    """The program rewritten. Errors: ProgramError for an unknown rewrite, wrong arguments, or one that does not apply."""
    function = REWRITES.get(name)
    if function is None:
        close = get_close_matches(name, REWRITES, 1)
        raise ProgramError(
            f"unknown rewrite {name!r}",
            expected="one of " + ", ".join(REWRITES),
            advice=f"did you mean {close[0]!r}?" if close else "",
        )
    try:
        inspect.signature(function).bind(program, **arguments)
    except TypeError as error:
        usage = ", ".join(list(inspect.signature(function).parameters)[1:])
        raise ProgramError(f"{name}: {error}", expected=f"arguments {usage}", found=", ".join(arguments)) from None
    return function(program, **arguments)
