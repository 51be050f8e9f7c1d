"""Random arrays for the arguments of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tensor.dtype import DTYPES
from ..tensor.oracle.random_inputs import named_inputs, random_array
from ..tensor.program import Program
from ..tensor.text.parse import parse
from .arguments import Argument
from .devices.base import Array


def random_arguments(wanted: Sequence[Argument], text: str | None) -> tuple[Array, ...]:
    """Arrays for the arguments, in order. `text`: of the program, where it is known: indices are in its ranges then."""
    if text is not None:
        names = [one.spec.name for one in wanted]
        known = named_inputs(parse(text), names)
        return tuple(known[name] for name in names)
    generator = np.random.default_rng(0)
    return tuple(random_array(one.spec.shape, DTYPES[one.spec.dtype], generator) for one in wanted)


def random_constants(program: Program) -> dict[str, Array]:
    """Arrays for the constants of a program, by name."""
    return named_inputs(program, [tensor.name for tensor in program.constant_inputs])
