"""What a kernel may do to the arithmetic of its program.

    default    other algorithms than the one that the program writes down may be taken, where their errors have a stated bound
    strict     only the order of sums may be another one

Which rewrites are of which kind stands where they are registered (rewrites/registry.py). Both kinds of kernel share the
arithmetic of single operations: elementary functions within their stated errors, products and sums rounded together, quotients
by what stays the same in a loop as products with its reciprocal.
"""

from __future__ import annotations

from typing import Literal, get_args

from ..common.errors import ArgumentError
from ..common.near import did_you_mean

Accuracy = Literal["default", "strict"]


def accuracy_named(name: str) -> Accuracy:
    """The accuracy of this name. Errors: ArgumentError."""
    for known in get_args(Accuracy):
        if name == known:
            return known  # type: ignore[no-any-return]
    names = get_args(Accuracy)
    raise ArgumentError(f"unknown accuracy {name!r}", expected=" or ".join(names), advice=did_you_mean(name, names))
