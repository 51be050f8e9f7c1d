"""Options, values of parameters that are a choice more than a number (a flag, a number of rows): trials that tell their worth.

A prior that is wrong about an option on some machine is wrong about all candidates that have it. A search that follows the
prior would never hear of it: what it tries is alike where the prior is sure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.random import Generator

from ...schedules.space import ConfigSpace, Population, Space
from ...schedules.space_ops import take, unique
from .pool import Vector

Option = tuple[int, int]  # which parameter of its sketch, and which of its values


def missing(config_space: ConfigSpace, tried: Iterable[Sequence[int]], most: int, times: int) -> list[Option]:
    """Options that fewer than `times` of these choices have, of parameters with up to `most` values."""
    known = [Counter(values) for values in zip(*tried, strict=True)] or [
        Counter[int]() for _ in config_space.parameters
    ]
    return [
        (place, option)
        for place, parameter in enumerate(config_space.parameters)
        if len(parameter.values) <= most
        for option in range(len(parameter.values))
        if known[place][option] < times
    ]


def mixed(
    space: Space, rng: Generator, parents: Population, options: Collection[Option], count: int, most: int
) -> Population:
    """Makes up to `count` valid candidates with the sizes of these parents, and with one of these options at least. What a
    parameter of up to `most` values has is the parent's or drawn, with equal chance."""
    choices = parents.choices[rng.integers(len(parents), size=count)]
    for place, parameter in enumerate(space.config_spaces[parents.sketch].parameters):
        if 1 < len(parameter.values) <= most:
            drawn = rng.integers(len(parameter.values), size=count)
            choices[:, place] = np.where(rng.random(count) < 0.5, drawn, choices[:, place])
    wanted = np.zeros(count, dtype=np.bool_)
    for place, option in options:
        wanted |= choices[:, place] == option
    members = unique(space, Population(parents.sketch, choices[wanted]))
    return take(members, space.valid(members))


def telling(members: Population, prior: Vector, options: Collection[Option], price: float, close: float) -> list[int]:
    """Rows of `members` that have these options, each option at nearly its best price; those above `price` are left out.

    The dearest option comes first, as it is what the prior would try last. Within `close` times the best with it, a row with
    more of the others is preferred: what the prior is wrong about may lie in two options together.
    """
    has = {(place, option): members.choices[:, place] == option for place, option in options}
    prices = {option: float(prior[rows].min(initial=np.inf)) for option, rows in has.items()}
    left = [option for option in sorted(has, key=lambda o: -prices[o]) if prices[option] <= price and has[option].any()]
    chosen: list[int] = []
    while left:
        near = np.flatnonzero(has[left[0]] & (prior <= close * prices[left[0]]))
        new = np.sum([has[option][near] for option in left], axis=0)
        chosen.append(int(near[np.lexsort((prior[near], -new))[0]]))
        left = [option for option in left if not has[option][chosen[-1]]]
    return chosen
