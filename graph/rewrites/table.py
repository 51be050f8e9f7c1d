"""The rewrites of whole programs, in the order in which they are done before a program is cut into kernels.

Each takes time linear in the number of stages, keeps inputs and outputs as they are, and computes the same values, sums in
perhaps another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...tensor.program import Program
from ...tensor.stage_edits import needed_stages
from .added_zeros import without_added_zeros
from .common import common_stages
from .fills import inlined_fills
from .forward import forward_windows
from .narrow_joins import narrow_joins
from .parted_sums import parted_sums
from .sums_first import sums_first

GRAPH_REWRITES: Mapping[str, Callable[[Program], Program]] = {
    "needed stages": needed_stages,
    "fills": inlined_fills,
    "added zeros": without_added_zeros,
    "forward windows": forward_windows,
    "common stages": common_stages,
    "sums first": sums_first,
    "parted sums": parted_sums,
    "narrow joins": narrow_joins,
}


def rewritten(program: Program) -> Program:
    """The program after all rewrites."""
    for rewrite in GRAPH_REWRITES.values():
        program = rewrite(program)
    return program
