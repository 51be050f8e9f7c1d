"""Sums of products of words of narrow elements: what instructions add them up, and the registers that they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...targets.matrix_instructions import vector_instruction
from ...targets.target import Target
from ...tensor.dots import DOTS, dot_of
from ...tensor.expr import Const, Expr, Op, children, walk
from ...tensor.program import Stage
from ..footprint import Value
from ..operations import Dots


def added_dots(target: Target) -> Dots:
    """Operators on words that instructions of the target add to sums in vectors, and what these take beside one."""
    found = ((dot, vector_instruction(target.matrix_instructions, dot.left, dot.right)) for dot in DOTS.values())
    return frozenset((dot.name, row.cycles - 1.0) for dot, row in found if row is not None)


def waiting_products(stage: Stage, target: Target) -> float:
    """Registers of products that an instruction of their own adds to sums: one of the factors becomes the product, the other is
    a number for all of them, or a sum of words."""
    found = 0
    for body in stage.bodies:
        for node in walk(body):
            dot = dot_of(node)
            row = None if dot is None else vector_instruction(target.matrix_instructions, dot.left, dot.right)
            if row is not None and not row.adds:
                found = max(found, 1 + any(isinstance(c, Const) or _adds_words(c) for c in children(node)))
    return float(found)


def _adds_words(node: Expr) -> bool:
    return isinstance(node, Op) and node.name == "half_add"


def held_operands(live: Mapping[frozenset[str], Sequence[Value]], words: bool) -> Value:
    """Registers of operands, `live` being the copies of each in the straight code, by the axes that move it: the shorter side
    of a product is held, the other one streams through one. Where `words` are added before they are multiplied or widened, all
    words of a side are: 4 x 3 sums of crossed words went through memory with 17 instructions in each step."""
    if words and len(live) == 2 and sum(map(len, live.values())) > 2:
        one, other = live.values()
        held: Value = np.minimum(sum(one, float(len(other))), sum(other, float(len(one))))
        return held
    each = [copies for side in live.values() for copies in side]
    if len(each) < 2:
        return 1.0
    least: Value = each[0]
    for copies in each[1:]:
        least = np.minimum(least, copies)
    return least + 1.0
