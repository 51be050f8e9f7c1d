"""Which sketches a draft looks at: all of them, unless they are many and large.

A sketch is a combination of options, one for each variant, and the options of several stages multiply. A look costs a walk over
all stages of a sketch, so that looking at each would take minutes where there are 20 stages. But the seconds of a program are
a sum over its nests, and so are, nearly, what its options cost. Therefore each option is looked at once, in the first sketch
that has it, and of all other combinations only those which the costs of their options say are the best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TypeVar

from ...schedules.space import ConfigSpace
from ..effort import Draft

T = TypeVar("T")


def looked_at(
    config_spaces: Sequence[ConfigSpace], settings: Draft, look: Callable[[int], T], seconds: Callable[[T], float]
) -> dict[int, T]:
    """Looks at sketches, by their numbers; returns what was found. `seconds`: of the best candidate of a sketch."""
    found: dict[int, T] = {}
    if sum(one.stages for one in config_spaces) <= settings.walked:
        return {number: look(number) for number in range(len(config_spaces))}
    costs: dict[tuple[str, object], float] = {}
    combined: list[tuple[float, int]] = []
    for number, one in enumerate(config_spaces):
        known = sum(costs.get(option, 0.0) for option in one.variants)
        new = [option for option in one.variants if option not in costs]
        if one.variants and not new:
            combined.append((known, number))
            continue
        found[number] = look(number)
        # the first one that is new is what was chosen; others follow from it
        more = seconds(found[number]) - known if known < inf else 0.0
        costs.update({option: 0.0 if nth else more for nth, option in enumerate(new)})
    room = settings.walked - sum(config_spaces[number].stages for number in found)
    for nth, (_, number) in enumerate(sorted(combined)):
        room -= config_spaces[number].stages
        if nth >= settings.further and room < 0:
            break
        found[number] = look(number)
    return found
