"""Random candidates of random programs, lowered."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from helpers.lowering.sketches import random_sketch
from helpers.lowering.truth import config, draw_choices, valid
from tilesmith.codegen.ir.loop_ir import LoopProgram
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules.loops import LoopTree
from tilesmith.targets.target import Target
from tilesmith.tensor.program import Program


def drawn(
    program: Program, target: Target, random: Random, count: int,
    lowered: Callable[[LoopTree, Target], LoopProgram] = loop_ir,
) -> LoopProgram:  # fmt: skip
    """A random valid candidate of a program, the first of `count` draws for a sketch."""
    for _ in range(20):
        sketch = random_sketch(program, random, lines=True)
        config_space = sketch.config_space(program, target)
        choices = draw_choices(config_space, random, count)
        good = np.flatnonzero(valid(sketch.apply_population(program, target, config_space, choices), count))
        if len(good):
            return lowered(sketch.apply(program, target, config(config_space, choices[good[0]])), target)
    raise AssertionError("20 random sketches without a valid config")
