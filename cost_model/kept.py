"""What a kernel keeps of constants, and what that is worth.

A kernel of a model reads what it keeps from memory in each call: what other kernels touch comes in between, and replaces it in
all caches, so that they read theirs again. So a byte that is kept costs as many seconds as reading it from memory takes, beside
what a prediction counts. Its place, which nothing else can have, is worth nothing more: at 1.4 times that, resnet18 with one
image takes 21 MB less and 1.14 times as long (two threads of an EPYC 9004: windows on 512 channels of 7 x 7 without F(2x2)).
A form that keeps more has to save more than that. Fast convolutions are the forms that this is about, as F(4x4, 3x3) keeps four
times the filter, once where each call transforms it. One thread of a loaded EPYC of Zen 3: 256 channels of 14 x 14 9.4 MB and
1.2 ms, F(2x2) 4.2 MB and 1.5 ms, where filters come from memory; 512 channels of 28 x 28 38 MB and 10.9 ms, with filters that
are transformed in each call 9.4 MB and 15.0 ms, F(2x2) 16.8 MB and 19.5 ms.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..schedules.loops import LoopTree
from ..schedules.prepared import constant_tensors, prepared_stages
from ..targets.ceilings import Ceilings
from ..tensor.exceptional import exceptional_condition
from .analytic import MEMORY, far_costs


def kept_bytes(tree: LoopTree) -> int:
    """Bytes of constants that calls read, as they were given or as they were prepared. What was given and only sums that stand
    in for others read stays in its file, mostly."""
    program, prepared = tree.program, prepared_stages(tree)
    called = [tree.definition(stage.stage) for stage in tree.stages if stage.stage not in prepared]
    usual = [stage for stage in called if exceptional_condition(stage) is None]
    made = {tensor.name for name in prepared for tensor in tree.definition(name).tensors}
    given = constant_tensors(program) - program.producers.keys()
    read, seldom = ({read.tensor for stage in stages for read in stage.reads()} for stages in (usual, called))
    tensors = [program.tensors[name] for name in (read & given) | (seldom & made)]
    return sum(prod(tensor.shape) * tensor.dtype.bytes for tensor in tensors)


def keeping_seconds(bytes: float, ceilings: Ceilings) -> float:
    """Returns what it is worth not to keep so many bytes."""
    read, _, _ = far_costs(ceilings, MEMORY)
    return bytes * float(np.asarray(read, dtype=np.float64))
