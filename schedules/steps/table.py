"""The schedule primitives: small pure functions from loop tree to loop tree. `STEPS` names them.

Each docstring shows before -> after on the outline. Legality is checked there, on structure alone, so it is the same for a
template that is being traced and for 100,000 configs; what depends on numbers becomes a condition of the tree.

    loops.py     split reorder vectorize unroll parallel bind
    stages.py    compute_at inline copy
    hints.py     streaming align prefetch bring pipeline pad_layout swizzle tensorize
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..loops import LoopTree
from .checks import Context
from .hints import align, bring, pad_layout, pipeline, prefetch, streaming, swizzle, tensorize
from .loops import bind, parallel, reorder, split, unroll, vectorize
from .stages import compute_at, copy, inline


@dataclass(frozen=True, slots=True)
class StepKind:
    """A primitive: its function, and what its arguments are: l loop, s stage, t tensor, n name, w word, e extent.

    `*` behind the last letter: one or more of it. `?`: it may be left out.
    """

    function: Callable[..., LoopTree]
    arguments: str

    def kinds(self, count: int) -> str:
        """The letters of `count` arguments. ValueError for a number that does not fit."""
        letters = self.arguments.rstrip("*?")
        least = len(letters) - self.arguments.endswith("?")
        if count < least or (count > len(letters) and not self.arguments.endswith("*")):
            raise ValueError(f"{self.function.__name__} takes {least} arguments, found {count}")
        return letters[:count] + letters[-1] * (count - len(letters))


STEPS: dict[str, StepKind] = {
    "split": StepKind(split, "le*"),
    "reorder": StepKind(reorder, "l*"),
    "vectorize": StepKind(vectorize, "l"),
    "unroll": StepKind(unroll, "l*"),
    "parallel": StepKind(parallel, "l*"),
    "bind": StepKind(bind, "wel*"),
    "compute_at": StepKind(compute_at, "sl"),
    "inline": StepKind(inline, "s"),
    "copy": StepKind(copy, "ntsw?"),
    "streaming": StepKind(streaming, "se?"),
    "align": StepKind(align, "se?"),
    "prefetch": StepKind(prefetch, "tle"),
    "bring": StepKind(bring, "stle?"),
    "pipeline": StepKind(pipeline, "lee?"),
    "pad_layout": StepKind(pad_layout, "se"),
    "swizzle": StepKind(swizzle, "se"),
    "tensorize": StepKind(tensorize, "sw"),
}

__all__ = ["STEPS", "Context", "StepKind"]
