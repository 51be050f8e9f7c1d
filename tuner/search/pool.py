"""Candidates of all sketches with what a model needs to know of them, and choosing different ones among the good ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...schedules.space import Candidate, Parameter, Population, Space
from ...schedules.space_ops import CHUNK, concatenate, take
from ..effort import Spread

NOTHING = np.float32(0.5)  # a size of 0 on a logarithmic scale: below 1

Rows = NDArray[np.intp]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePool:
    """n candidates, part by part. Row i of `features` (float32[n, f]) and `prior` (float64[n]) is one of them."""

    parts: tuple[Population, ...]
    features: NDArray[np.float32]
    prior: Vector

    def __len__(self) -> int:
        return len(self.prior)

    @property
    def sketches(self) -> NDArray[np.int64]:
        """int64[n]: the sketch of each row."""
        return np.repeat([p.sketch for p in self.parts], [len(p) for p in self.parts]).astype(np.int64)

    def candidate(self, row: int) -> Candidate:
        """One row as a candidate."""
        for part in self.parts:
            if row < len(part):
                return part.candidate(row)
            row -= len(part)
        raise IndexError(row)

    def rows(self, chosen: Rows) -> CandidatePool:
        """The chosen rows, in ascending order."""
        chosen = np.sort(chosen)
        parts, start = [], 0
        for part in self.parts:
            inside = chosen[(chosen >= start) & (chosen < start + len(part))] - start
            parts.append(take(part, inside))
            start += len(part)
        return CandidatePool(tuple(parts), self.features[chosen], self.prior[chosen])


def pool_of(space: Space, populations: Sequence[Population]) -> CandidatePool:
    """A pool of all rows; populations of the same sketch are joined. Where the space has no prior it is NaN."""
    sketches = sorted({p.sketch for p in populations})
    parts = [concatenate([p for p in populations if p.sketch == sketch]) for sketch in sketches]
    return joined([CandidatePool((p,), described(space, p), prior_of(space, p)) for p in parts if len(p)])


def described(space: Space, population: Population, like: Space | None = None) -> NDArray[np.float32]:
    """float32[n, f + p + s]: the space's features, the raw parameters by name, and which sketch it is.

    Features carry over between shapes and tasks; what they miss (a tile height that the compiler happens to like, a
    structure that is slow for a reason nobody modelled) can be learned from the raw numbers. Parameters that a sketch does
    not have are NaN. `like`: the space whose parameters and sketches (by key) have the columns, if not its own.
    """
    model = like or space
    everything = [p for config_space in model.config_spaces for p in config_space.parameters]
    names = list(dict.fromkeys(p.name for p in everything if len(p.values) > 1))
    here = space.config_spaces[population.sketch]
    columns = np.full((len(population), len(names) + len(model.config_spaces)), np.nan, dtype=np.float32)
    columns[:, len(names) :] = [config_space.key == here.key for config_space in model.config_spaces]
    for index, parameter in enumerate(here.parameters):
        if parameter.name in names:
            columns[:, names.index(parameter.name)] = _table(parameter)[population.choices[:, index]]
    return np.concatenate([space.features(population), columns], axis=1)


def _table(parameter: Parameter) -> NDArray[np.float32]:
    """float32[number of values]: sizes on a logarithmic scale, on which 2 and 4 are as far apart as 32 and 64."""
    values = parameter.values
    if all(isinstance(v, int) and v >= 0 for v in values):
        return np.log2(np.maximum(np.array(values, dtype=np.float32), NOTHING))
    return np.arange(len(values), dtype=np.float32)


def joined(pools: Sequence[CandidatePool]) -> CandidatePool:
    """All rows of all pools; nothing is calculated again."""
    pools = [pool for pool in pools if len(pool)]
    if not pools:
        return CandidatePool((), np.zeros((0, 0), dtype=np.float32), np.zeros(0))
    return CandidatePool(
        tuple(part for pool in pools for part in pool.parts),
        np.concatenate([pool.features for pool in pools]),
        np.concatenate([pool.prior for pool in pools]),
    )


def prior_of(space: Space, population: Population) -> Vector:
    """float64[n]: seconds by the prior, NaN where there is none; in chunks, so that memory stays flat."""
    out = np.full(len(population), np.nan)
    for start in range(0, len(population), CHUNK):
        whole = len(population) <= CHUNK  # then the very same object: a space may remember its last analysis
        part = population if whole else take(population, np.arange(start, min(start + CHUNK, len(population))))
        prior = space.prior(part)
        if prior is not None:
            out[start : start + len(prior)] = prior
    return out


def scales(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[f]: factors that give all features the same weight in a distance; constant features get none."""
    deviation = np.nan_to_num(features).std(axis=0) if len(features) else np.zeros(features.shape[1], dtype=np.float32)
    return np.where(deviation > 1e-12, 1.0 / np.maximum(deviation, 1e-12), 0.0).astype(np.float32)


def spread_out(
    features: NDArray[np.float32], scale: NDArray[np.float32], score: Vector, count: int, settings: Spread
) -> list[int]:
    """Chooses up to `count` rows with low scores that are far apart: the best of each neighbourhood.

    Goes through the rows from the best on and takes each that is at least a radius away from all taken. The radius
    begins at the mean distance to the best row and shrinks until there are enough. `scale` weighs the features.
    """
    order = np.argsort(score, kind="stable")[: max(settings.times * count, settings.shortlist)]
    points = np.nan_to_num(features[order]) * scale
    if not len(order):
        return []
    nearest = np.sqrt(((points - points[0]) ** 2).sum(axis=1))
    radius = float(nearest.mean())
    taken = [0]
    nearest[0] = -1.0
    while len(taken) < min(count, len(order)):
        far = np.flatnonzero(nearest >= radius) if radius > 1e-6 else np.flatnonzero(nearest >= 0)
        if not len(far):
            radius *= settings.shrink
            continue
        row = int(far[0])
        taken.append(row)
        nearest = np.minimum(nearest, np.sqrt(((points - points[row]) ** 2).sum(axis=1)))
        nearest[taken] = -1.0
    return [int(order[row]) for row in taken]
