"""What a library is asked for, and what it gives: a call without arguments.

A library is a function `prepare(operator, arrays, outputs, threads, constants, sizes)` that returns such a call, or None where
the library has no way of its own. `arrays` are the inputs by name, those called in `constants` never change, so that a library
may rearrange them beforehand as ours does; the call writes `outputs` where the library can, else it returns its result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...measure.compare.serving import PlainCall

Array = np.ndarray[Any, np.dtype[Any]]
NamedArrays = Mapping[str, Array]
TensorNames = Collection[str]
Sizes = Mapping[str, Any]


@dataclass
class ModelWay:
    """A model ready to run: `results` gives the arrays that the last call made."""

    call: PlainCall
    results: Callable[[], Sequence[Array]]
    about: dict[str, object] = field(default_factory=dict)
