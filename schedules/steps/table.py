"""The schedule primitives: small pure functions from loop tree to loop tree. `STEPS` names them.

Each docstring shows before -> after on the outline. Legality is checked there, on structure alone, so it is the same for a
template that is being traced and for 100,000 configs; what depends on numbers becomes a condition of the tree. Each file ends
with the table of its own:

    loops.py     the loops of one stage: cut, ordered, unrolled, given to threads
    stages.py    where stages run, what is written into their readers, what is copied for them
    hints.py     how memory is used, and matrix units
"""

from __future__ import annotations

from .checks import Context
from .hints import HINT_STEPS
from .kind import StepKind
from .loops import LOOP_STEPS
from .stages import STAGE_STEPS

STEPS: dict[str, StepKind] = {**LOOP_STEPS, **STAGE_STEPS, **HINT_STEPS}

__all__ = ["STEPS", "Context", "StepKind"]
