"""Runs passes over loop IR in their order, and looks at what each leaves behind.

From debug level 4 on the program is shown after every pass that changed it. It is verified there too, and wherever the setting
VERIFY asks for it, as all tests do: a defect is found where it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...common.debug import DebugLevel, show, wanted
from ...common.settings import VERIFY
from ..ir.loop_ir import LoopProgram
from ..ir.printing import print_loops
from ..ir.verify import verify

Pass = Callable[[LoopProgram], LoopProgram]


def run_passes(program: LoopProgram, passes: Sequence[Callable[..., LoopProgram]], *given: object) -> LoopProgram:
    """The program after all passes, each of which is `given` the same beside it.

    InternalError: a pass broke an invariant (ir/verify.py), where that is looked for.
    """
    looks = wanted(DebugLevel.LOOPS) or VERIFY.value()
    for one in passes:
        changed = one(program, *given)
        if looks and changed != program:
            name = one.__name__.strip("_")
            show(DebugLevel.LOOPS, f"{program.name} after {name}", partial(print_loops, changed))
            verified(changed, f"after {name}")
        program = changed
    return program


def verified(program: LoopProgram, when: str) -> LoopProgram:
    """The same program, whose invariants are verified where that is asked for. InternalError: one is broken."""
    if wanted(DebugLevel.LOOPS) or VERIFY.value():
        verify(program, when)
    return program
