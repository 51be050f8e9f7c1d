"""How large a program may be. What is larger is refused when it is read or made, before any time or memory goes into it.

Expressions are trees that are walked by recursion, a few frames of Python for each level: the interpreter is told to allow as
many as the deepest expression needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

NodeType = TypeVar("NodeType")
TreeSize = tuple[int, int]  # nodes and levels of a tree

TEXT = 1 << 22  # characters of a program's text
DIGITS = 40  # of a whole number, more than any dtype holds
DEPTH = 1000  # operators, functions and parentheses inside each other; a + b + c are two levels
NODES = 1 << 16  # of an expression, what occurs twice counted twice
AXES = 32  # of a stage or a tensor, as NumPy had it
PARTS = 1 << 9  # tensors that an operator takes or gives; each is a level of a choice
WINDOWS = 1 << 16  # of different sizes along an axis
EXTENT = 1 << 40  # of an axis or a dimension
ELEMENTS = 1 << 44  # of a tensor: a processor's addresses go to 2^47 bytes
POINTS = 1 << 53  # of all axes of a stage: a float64 counts them exactly, and a kernel takes hours for fewer

_FRAMES = 14  # of Python for each level, where most are needed
sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + _FRAMES * DEPTH))


def size_of(root: NodeType, children: Callable[[NodeType], Sequence[NodeType]]) -> TreeSize:
    """Nodes, what occurs twice counted twice, and levels of a tree; a subtree that is one object is looked at once.

    There is no recursion, as nobody has looked yet how deep it is.
    """
    known: dict[int, TreeSize] = {}
    waiting = [(root, children(root))]  # which live as long as they are known by their identity
    kept = []
    while waiting:
        node, below = waiting[-1]
        left = [child for child in below if id(child) not in known]
        if left:
            waiting += [(child, children(child)) for child in left]
            continue
        found = [known[id(child)] for child in below]
        known[id(node)] = 1 + sum([nodes for nodes, _ in found]), 1 + max([levels for _, levels in found], default=0)
        kept.append(waiting.pop())
    return known[id(root)]


def excess(root: NodeType, children: Callable[[NodeType], Sequence[NodeType]]) -> str:
    """Returns what is too large about an expression, and how large it may be; empty where nothing is."""
    return excess_of(*size_of(root, children))


def excess_of(nodes: int, depth: int) -> str:
    """Works as `excess`, for an expression of so many nodes and levels."""
    if depth > DEPTH:
        return f"at most {DEPTH} operators and functions inside each other"
    return f"at most {NODES} operators and operands" if nodes > NODES else ""


SMALLER = "give a part of it a stage of its own, or write a long sum as a reduction over an axis"
