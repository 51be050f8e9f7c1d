"""Runs passes over loop IR in their order, and looks at what each leaves behind.

From debug level 4 on the program is shown after every pass that changed it. There, and where TILESMITH_VERIFY asks for it, as
all tests do, it is verified too: a defect is found where it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...common.debug import Level, show, wanted
from ..ir.loop_ir import LoopProgram
from ..ir.printing import print_loops

Pass = Callable[[LoopProgram], LoopProgram]


def run_passes(program: LoopProgram, passes: Sequence[Callable[..., LoopProgram]], *given: object) -> LoopProgram:
    """The program after all passes, each of which is `given` the same beside it."""
    for one in passes:
        changed = one(program, *given)
        if wanted(Level.LOOPS) and changed != program:
            show(Level.LOOPS, f"{program.name} after {one.__name__.strip('_')}", print_loops(changed))
        program = changed
    return program
