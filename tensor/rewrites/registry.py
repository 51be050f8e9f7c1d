"""Rewrites: programs to programs that compute the same. The registry by which sketches name them.

A rewrite is a pure function of a program and plain arguments (names of tensors and axes, numbers). Inputs and outputs stay
the same arrays in memory; their shapes may lose dimensions (merge_axes). Each says here whether it does anything else than
sums in another order: a task that asks for strict accuracy has no others (accuracy.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...common.errors import ProgramError
from ...common.near import did_you_mean
from ..accuracy import Accuracy
from ..program import Program
from .added_halves import added_halves
from .axes import merge_axes, pad_axis, split_k
from .block_softmax import block_softmax
from .crossed_words import crossed_words
from .dot_words import bf16_dots, dot_words, half_words, small_words
from .factor_sums import factor_sums
from .fast_windows.space_to_batch import space_to_batch
from .fast_windows.winograd import winograd, winograd_integers
from .fast_windows.winograd_taps import winograd_taps
from .fold_lanes import fold_lanes
from .im2col import im2col
from .normalise import normalise
from .online_softmax import online_softmax
from .pad_reads import pad_reads
from .pin_reductions import pin_reductions
from .reorder_axes import reorder_axes, reorder_reads
from .shared_extrema import shared_extrema
from .siblings.join import join_siblings
from .tiles.bf16_parts import bf16_products
from .tiles.dots import bf16_tile_dots, tile_dots
from .trim_reductions import trim_reductions
from .widen_reads import widen_reads
from .window_rows import window_rows
from .window_words import window_words

__all__ = [
    "REWRITES",
    "Registered",
    "added_halves",
    "apply_rewrite",
    "bf16_dots",
    "bf16_products",
    "bf16_tile_dots",
    "block_softmax",
    "crossed_words",
    "dot_words",
    "factor_sums",
    "fold_lanes",
    "half_words",
    "im2col",
    "is_allowed",
    "join_siblings",
    "merge_axes",
    "normalise",
    "online_softmax",
    "pad_axis",
    "pad_reads",
    "pin_reductions",
    "reorder_axes",
    "reorder_reads",
    "shared_extrema",
    "small_words",
    "space_to_batch",
    "split_k",
    "tile_dots",
    "trim_reductions",
    "widen_reads",
    "window_rows",
    "window_words",
    "winograd",
    "winograd_integers",
    "winograd_taps",
]


@dataclass(frozen=True, slots=True)
class Registered:
    """A rewrite. `only_reorders`: every value is the same number but for the order of its sums (and so of their roundings)."""

    function: Callable[..., Program]
    only_reorders: bool


REWRITES: dict[str, Registered] = {
    "added_halves": Registered(added_halves, only_reorders=True),
    "bf16_dots": Registered(bf16_dots, only_reorders=False),  # numbers below the least normal one count as zero
    "bf16_products": Registered(bf16_products, only_reorders=False),  # leaves out products below a rounding of float32
    "bf16_tile_dots": Registered(bf16_tile_dots, only_reorders=False),  # as bf16_dots
    "block_softmax": Registered(block_softmax, only_reorders=False),  # exponentials are products of exponentials
    "crossed_words": Registered(crossed_words, only_reorders=True),
    "dot_words": Registered(dot_words, only_reorders=True),
    "factor_sums": Registered(factor_sums, only_reorders=False),  # a factor of terms becomes one of their sum
    "fold_lanes": Registered(fold_lanes, only_reorders=True),
    "half_words": Registered(half_words, only_reorders=True),
    "im2col": Registered(im2col, only_reorders=True),
    "join_siblings": Registered(join_siblings, only_reorders=True),
    "merge_axes": Registered(merge_axes, only_reorders=True),
    "normalise": Registered(normalise, only_reorders=True),
    "online_softmax": Registered(online_softmax, only_reorders=False),  # as block_softmax
    "pad_axis": Registered(pad_axis, only_reorders=True),
    "pad_reads": Registered(pad_reads, only_reorders=True),
    "pin_reductions": Registered(pin_reductions, only_reorders=False),  # leaves out zero times any weight
    "reorder_axes": Registered(reorder_axes, only_reorders=True),
    "reorder_reads": Registered(reorder_reads, only_reorders=True),
    "shared_extrema": Registered(shared_extrema, only_reorders=True),
    "small_words": Registered(small_words, only_reorders=True),
    "space_to_batch": Registered(space_to_batch, only_reorders=True),
    "split_k": Registered(split_k, only_reorders=True),
    "tile_dots": Registered(tile_dots, only_reorders=True),
    "trim_reductions": Registered(trim_reductions, only_reorders=False),  # leaves out zero times any weight
    "widen_reads": Registered(widen_reads, only_reorders=True),
    "window_rows": Registered(window_rows, only_reorders=True),
    "window_words": Registered(window_words, only_reorders=True),
    "winograd": Registered(winograd, only_reorders=False),  # other products, of sums of the data and of the filter
    "winograd_integers": Registered(winograd_integers, only_reorders=True),  # the same, of which no number is rounded
    "winograd_taps": Registered(winograd_taps, only_reorders=False),  # as winograd
}


def is_allowed(name: str, accuracy: Accuracy) -> bool:
    """Says whether kernels of an accuracy may be made by a rewrite. One that nobody knows is never strict."""
    return accuracy == "default" or (name in REWRITES and REWRITES[name].only_reorders)


def apply_rewrite(program: Program, name: str, arguments: Mapping[str, object]) -> Program:
    """The program rewritten. Errors: ProgramError for an unknown rewrite, wrong arguments, or one that does not apply."""
    found = REWRITES.get(name)
    if found is None:
        raise ProgramError(
            f"unknown rewrite {name!r}",
            expected="one of " + ", ".join(REWRITES),
            advice=did_you_mean(name, REWRITES),
        )
    function = found.function
    try:
        inspect.signature(function).bind(program, **arguments)
    except TypeError as error:
        usage = ", ".join(list(inspect.signature(function).parameters)[1:])
        raise ProgramError(f"{name}: {error}", expected=f"arguments {usage}", found=", ".join(arguments)) from None
    return function(program, **arguments)
