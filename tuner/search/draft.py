"""The draft: a look at a very large population by the prior alone, before anything is measured.

Closed-form scores first, the learned model on what they leave, measurements last: see Zhu et al., "Roller" (OSDI 2022),
and Qiao et al., "Pruner: a draft-then-verify exploration mechanism" (ASPLOS 2025).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...schedules.space import Candidate, Population, Space
from ...schedules.space_ops import codes, concatenate, defaults, mutate, population, sample, shares, take, unique
from ..effort import Draft
from .pool import CandidatePool, Vector, described, joined, pool_of, prior_of
from .structures import looked_at

Scored = tuple[Population, Vector]


def draft(space: Space, rng: np.random.Generator, settings: Draft) -> CandidatePool:
    """About `settings.keep` candidates: the best by the prior of `settings.population` samples and their descendants.

    Sketches whose best is close to the best of all share the places evenly. The prior tells good from bad, but many
    structures are good: of these it must not choose one alone.
    """
    best = _best_of_sketches(space, rng, settings)
    close = _close(best, settings.slack)
    quota = settings.keep // max(sum(close), 1)
    places = [max(quota, settings.least) if c else settings.least for c in close]
    kept = [_least(p, prior, count) for (p, prior), count in zip(best, places, strict=True)]
    return joined([CandidatePool((p,), described(space, p), prior) for p, prior in kept if len(p)])


def best_choices(space: Space, rng: np.random.Generator, settings: Draft) -> list[tuple[float, Candidate]]:
    """The best candidate of each sketch by the prior alone, with its prior; the best of all comes first."""
    best = [(population, prior) for population, prior in _best_of_sketches(space, rng, settings) if len(prior)]
    found = [(float(prior[0]), population.candidate(0)) for population, prior in best]
    return sorted(found, key=lambda one: one[0])


def _best_of_sketches(space: Space, rng: np.random.Generator, settings: Draft) -> list[Scored]:
    """Returns the best of each sketch that were met, best first; none of those that are not looked at."""
    given, counts = defaults(space), shares(space, settings.population)

    def look(sketch: int) -> Scored:
        first = _listed(space, sketch, (c for c in given if c.sketch == sketch))
        seen = unique(space, concatenate([first, sample(space, rng, sketch, max(counts[sketch], settings.least))]))
        return _least(seen, prior_of(space, seen), settings.keep)

    seen = looked_at(space.config_spaces, settings, look, lambda found: float(min(found[1], default=np.inf)))
    nothing = ((_listed(space, sketch, ()), np.zeros(0)) for sketch in range(len(space.config_spaces)))
    best = [seen.get(sketch, empty) for sketch, empty in enumerate(nothing)]
    for _ in range(settings.generations):
        close = _close(best, settings.slack)
        part = settings.children // max(sum(close), 1)
        best = [_descend(space, rng, b, part, settings) if c else b for b, c in zip(best, close, strict=True)]
    return best


def _listed(space: Space, sketch: int, candidates: Iterable[Candidate]) -> Population:
    return population(sketch, candidates, len(space.config_spaces[sketch].parameters))


def drawn(space: Space, rng: np.random.Generator, settings: Draft) -> CandidatePool:
    """Draws as many candidates as a draft keeps, at random: what a draft is compared with."""
    parts = [sample(space, rng, sketch, count) for sketch, count in enumerate(shares(space, settings.keep)) if count]
    return pool_of(space, [part for part in parts if len(part)])


def _least(population: Population, prior: Vector, count: int) -> Scored:
    """The `count` rows of the least prior, best first."""
    if len(prior) > count:
        close = np.flatnonzero(prior <= np.partition(prior, count - 1)[count - 1])
        population, prior = take(population, close), prior[close]
    order = np.argsort(prior, kind="stable")[:count]
    return take(population, order), prior[order]


def _close(best: list[Scored], slack: float) -> list[bool]:
    """Says which sketches have a candidate that the prior puts within `slack` times the best of all."""
    least = [float(prior[0]) if len(prior) else np.inf for _, prior in best]
    return [one <= slack * min(least) and one < np.inf for one in least]


def _descend(space: Space, rng: np.random.Generator, best: Scored, count: int, settings: Draft) -> Scored:
    """One generation: `count` children of a sketch's best, and the best of all.

    Most children are copies of others, or of parents: nobody looks at these again.
    """
    parents, prior = best
    chosen = take(parents, rng.integers(min(settings.parents, len(parents)), size=count))
    everyone = concatenate([parents, mutate(space, rng, chosen, genes=settings.genes)])
    first = np.unique(codes(space.config_spaces[parents.sketch], everyone.choices), return_index=True)[1]
    new = first[first >= len(parents)]
    children = take(everyone, new)
    runs = np.ones(len(everyone), dtype=np.bool_)
    runs[new] = space.valid(children)
    times = np.full(len(everyone), np.nan)
    times[: len(parents)] = prior
    times[new[runs[new]]] = prior_of(space, take(children, runs[new]))
    first = first[runs[first]]
    return _least(take(everyone, first), times[first], settings.keep)
