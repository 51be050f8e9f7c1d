"""The draft: a look at a very large population by the prior alone, before anything is measured.

Closed-form scores first, the learned model on what they leave, measurements last: see Zhu et al., "Roller" (OSDI 2022),
and Qiao et al., "Pruner: a draft-then-verify exploration mechanism" (ASPLOS 2025).
"""

from __future__ import annotations

import numpy as np

from ...schedules.space import Population, Space
from ...schedules.space_ops import concatenate, defaults, mutate, population, sample, shares, take, unique
from ..budget import Draft
from .pool import Pool, Vector, joined, prior_of

LEAST = 32  # rows that each arm keeps at least: the prior may be wrong about a whole structure
PARENTS = 256


def draft(space: Space, rng: np.random.Generator, settings: Draft) -> Pool:
    """The best `settings.keep` candidates by the prior among `settings.population` samples and their descendants."""
    best = []
    given = defaults(space)
    for arm, count in enumerate(shares(space, settings.population)):
        parameters = len(space.arms[arm].parameters)
        first = population(arm, (c for c in given if c.arm == arm), parameters)
        drawn = unique(space, concatenate([first, sample(space, rng, arm, max(count, LEAST))]))
        best.append(_least(drawn, prior_of(space, drawn), settings.keep))
    for _ in range(settings.generations):
        best = _descend(space, rng, best, settings)
    cut = _cut(best, settings.keep)
    kept = [np.flatnonzero((prior <= cut) | (np.arange(len(p)) < LEAST)) for p, prior in best]
    parts = [(take(p, rows), prior[rows]) for (p, prior), rows in zip(best, kept, strict=True) if len(rows)]
    return joined([Pool((p,), space.features(p), prior) for p, prior in parts])


Scored = tuple[Population, Vector]


def _least(population: Population, prior: Vector, count: int) -> Scored:
    if len(prior) > count:
        close = np.flatnonzero(prior <= np.partition(prior, count - 1)[count - 1])
        population, prior = take(population, close), prior[close]
    order = np.argsort(prior, kind="stable")[:count]
    return take(population, order), prior[order]


def _cut(best: list[Scored], count: int) -> float:
    """The prior of number `count` over all arms."""
    everything = np.concatenate([prior for _, prior in best])
    return float(np.partition(everything, count - 1)[count - 1]) if len(everything) > count else np.inf


def _descend(space: Space, rng: np.random.Generator, best: list[Scored], settings: Draft) -> list[Scored]:
    """One generation: children of the best of all arms, arms with more of those having more of them."""
    cut = _cut(best, PARENTS)
    leading = [int((prior <= cut).sum()) for _, prior in best]
    out = []
    for (parents, prior), leaders in zip(best, leading, strict=True):
        count = settings.children * leaders // max(sum(leading), 1)
        if not count:
            out.append((parents, prior))
            continue
        chosen = take(parents, rng.integers(leaders, size=count))
        children = mutate(space, rng, chosen, genes=2.0)
        children = take(children, space.valid(children))
        joined = concatenate([parents, children])
        times = np.concatenate([prior, prior_of(space, children)])
        first = np.unique(joined.choices, axis=0, return_index=True)[1]
        first.sort()
        out.append(_least(take(joined, first), times[first], settings.keep))
    return out
