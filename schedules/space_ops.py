"""Operations that every search strategy is made of, on whole populations at once.

    codes        one number for each candidate: equality and set membership
    decode       from the number back to the choices; counts through a config space
    draw         any candidates, drawn uniformly
    sample       distinct valid candidates, drawn uniformly
    mutate       a few genes of each candidate changed
    crossover    genes taken from either of two parents
    neighbours   all candidates one move away from one
    defaults     the default of every sketch

All randomness comes from the generator that the caller gives: same generator, same candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from .space import Candidate, Choices, ConfigSpace, Population, Space

Codes = NDArray[np.uint64]
Generator = np.random.Generator

ENUMERABLE = 1 << 17  # sketches up to this many configs are counted through instead of drawn at random
SCARCE = 1 << 22  # the same for sketches where so few configs are valid that nearly all of these are asked for
NEW = 0.5  # share of valid rows of a draw that have not been met before, below which a sketch has little more to give
CHUNK = 1 << 14  # rows handled at a time
MAX_DRAWS = 1 << 20  # rows drawn in vain before a sketch counts as having nothing (more) to give
COUNTED = 1 << 2048  # configs of a sketch; one that has more is as large to us, as floats end there
WIDE = 64  # parameters of a sketch beyond which nearly all rows are invalid: all of them count then, by their width
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads codes of sketches too large to count


def sizes(config_space: ConfigSpace) -> NDArray[np.int64]:
    """Counts the values of each parameter, as int64[p]."""
    return np.array([len(p.values) for p in config_space.parameters], dtype=np.int64)


def codes(config_space: ConfigSpace, choices: Choices) -> Codes:
    """Returns a number for each row, as uint64[n], equal exactly where rows are equal.

    Mixed radix, the last parameter running fastest. Sketches of 2^64 configs and more get a hash: two different rows then
    share a code with a chance of n^2 / 2^65 among n rows.
    """
    out = np.zeros(choices.shape[0], dtype=np.uint64)
    if config_space.size < 1 << 64:
        for index, parameter in enumerate(config_space.parameters):
            out = out * np.uint64(len(parameter.values)) + choices[:, index].astype(np.uint64)
        return out
    for index in range(choices.shape[1]):
        out = (out ^ (choices[:, index].astype(np.uint64) + np.uint64(1))) * _MULTIPLIER
        out ^= out >> np.uint64(29)
    return out


def decode(config_space: ConfigSpace, numbers: Codes) -> Choices:
    """Returns the rows with these codes, as int32[n, p]; only for sketches of fewer than 2^64 configs."""
    rest = numbers.copy()
    out = np.empty((numbers.shape[0], len(config_space.parameters)), dtype=np.int32)
    for index in range(len(config_space.parameters) - 1, -1, -1):
        radix = np.uint64(len(config_space.parameters[index].values))
        out[:, index] = (rest % radix).astype(np.int32)
        rest //= radix
    return out


def population(sketch: int, candidates: Iterable[Candidate], parameters: int) -> Population:
    """Makes one population of candidates, all of which must be of this sketch."""
    rows = [c.choices for c in candidates]
    return Population(sketch, np.array(rows, dtype=np.int32).reshape(len(rows), parameters))


def group(space: Space, candidates: Sequence[Candidate]) -> list[tuple[NDArray[np.intp], Population]]:
    """Makes one population for each sketch of candidates of mixed sketches, with the positions they had in the sequence."""
    sketches = np.array([c.sketch for c in candidates], dtype=np.int64)
    out = []
    for sketch in np.unique(sketches):
        rows = np.flatnonzero(sketches == sketch)
        members = (candidates[int(r)] for r in rows)
        out.append((rows, population(int(sketch), members, len(space.config_spaces[int(sketch)].parameters))))
    return out


def take(population: Population, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Population:
    """Returns the given rows, as a population."""
    return Population(population.sketch, population.choices[rows])


def concatenate(populations: Sequence[Population]) -> Population:
    """Makes one population of several of one sketch."""
    return Population(populations[0].sketch, np.concatenate([p.choices for p in populations]))


def unique(space: Space, population: Population) -> Population:
    """Keeps every different row once, in order of first appearance."""
    first = np.unique(codes(space.config_spaces[population.sketch], population.choices), return_index=True)[1]
    return take(population, np.sort(first))


@dataclass
class Seen:
    """The set of candidates that were already met, sketch by sketch."""

    space: Space
    _codes: dict[int, set[int]] = field(default_factory=dict)
    _sorted: dict[int, Codes] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(c) for c in self._codes.values())

    def add(self, population: Population) -> NDArray[np.bool_]:
        """Adds all rows; tells, as bool[n], which were new (of equal rows the first)."""
        known = self._codes.setdefault(population.sketch, set())
        fresh = np.zeros(len(population), dtype=np.bool_)
        for row, code in enumerate(codes(self.space.config_spaces[population.sketch], population.choices).tolist()):
            if code not in known:
                known.add(code)
                fresh[row] = True
        self._sorted.pop(population.sketch, None)
        return fresh

    def add_one(self, candidate: Candidate) -> bool:
        """Adds one candidate; tells whether it was new."""
        parameters = len(self.space.config_spaces[candidate.sketch].parameters)
        return bool(self.add(population(candidate.sketch, [candidate], parameters))[0])

    def missing(self, population: Population) -> NDArray[np.bool_]:
        """Tells, as bool[n], which rows are not in the set."""
        if population.sketch not in self._codes:
            return np.ones(len(population), dtype=np.bool_)
        if population.sketch not in self._sorted:
            self._sorted[population.sketch] = np.array(sorted(self._codes[population.sketch]), dtype=np.uint64)
        known = self._sorted[population.sketch]
        wanted = codes(self.space.config_spaces[population.sketch], population.choices)
        place = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        return known[place] != wanted if len(known) else np.ones(len(population), dtype=np.bool_)


def enumerate_configs(space: Space, sketch: int) -> Iterator[Population]:
    """Yields all valid candidates of a sketch of fewer than 2^64 configs, in the order of their codes, in chunks."""
    size = space.config_spaces[sketch].size
    for start in range(0, size, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, size), dtype=np.uint64)
        chunk = Population(sketch, decode(space.config_spaces[sketch], numbers))
        yield take(chunk, space.valid(chunk))


def sample(space: Space, rng: Generator, sketch: int, count: int) -> Population:
    """Draws up to `count` distinct valid candidates of one sketch, uniformly.

    Fewer when the sketch has no more (small sketches are counted through, so this is exact), when drawing mostly finds what it
    has found before, or when `MAX_DRAWS` rows in a row brought nothing new.
    """
    size = space.config_spaces[sketch].size
    if size > max(ENUMERABLE, 2 * count):
        first = _drawn(space, rng, sketch, CHUNK if size <= SCARCE else 0)
        if size > SCARCE or size * len(first) > 2 * count * CHUNK:
            return _sample_by_rejection(space, rng, sketch, count)
    everything = concatenate(list(enumerate_configs(space, sketch)))
    rows = rng.permutation(len(everything))[:count]
    return take(everything, rows)


def draw(space: Space, rng: Generator, sketch: int, rows: int) -> Population:
    """Draws rows uniformly, valid or not."""
    extents = sizes(space.config_spaces[sketch])
    return Population(sketch, (rng.random((rows, len(extents))) * extents).astype(np.int32))


def _drawn(space: Space, rng: Generator, sketch: int, rows: int) -> Population:
    """Draws some rows uniformly and keeps the valid ones."""
    drawn = draw(space, rng, sketch, rows)
    return take(drawn, space.valid(drawn))


def _sample_by_rejection(space: Space, rng: Generator, sketch: int, count: int) -> Population:
    extents = sizes(space.config_spaces[sketch])
    found = Population(sketch, np.empty((0, len(extents)), dtype=np.int32))
    drawn, in_vain, width = 0, 0.0, max(1.0, len(extents) / WIDE)
    while len(found) < count and in_vain < MAX_DRAWS:
        yield_so_far = max(len(found), 1) / max(drawn, 1)
        rows = min(max(int(1.1 * (count - len(found)) / yield_so_far), 256), CHUNK)
        kept = _drawn(space, rng, sketch, rows)
        drawn += rows
        before = len(found)
        if len(kept):
            found = unique(space, concatenate([found, kept]))
        in_vain = 0.0 if len(found) > before and width == 1.0 else in_vain + rows * width
        if rows == CHUNK and len(found) - before < NEW * len(kept):
            break
    return take(found, np.arange(min(count, len(found))))


def mutate(space: Space, rng: Generator, parents: Population, genes: float) -> Population:
    """Changes a copy of each row, valid or not: at least one gene changes, `genes` on average.

    An ordered parameter moves one position (half of the time), two (a quarter), or anywhere; others take any other
    value. Parameters with a single value stay as they are.
    """
    extents = sizes(space.config_spaces[parents.sketch])
    free = np.flatnonzero(extents > 1)
    if not len(free) or not len(parents):
        return parents
    rows = np.arange(len(parents))
    change = np.zeros(parents.choices.shape, dtype=np.bool_)
    change[:, free] = rng.random((len(parents), len(free))) < max(genes - 1.0, 0.0) / len(free)
    change[rows, rng.choice(free, len(parents))] = True

    ordered = np.array([p.ordered for p in space.config_spaces[parents.sketch].parameters])
    jump = (parents.choices + 1 + (rng.random(change.shape) * (extents - 1)).astype(np.int32)) % np.maximum(extents, 1)
    kind = rng.random(change.shape)
    distance = np.where(kind < 0.5, 1, 2) * np.where(rng.random(change.shape) < 0.5, -1, 1)
    step = parents.choices + distance
    step = np.where((step < 0) | (step >= extents), parents.choices - distance, step)  # bounces off the ends
    stepped = ordered & (kind < 0.75) & (step >= 0) & (step < extents)
    moved = np.where(stepped, step, jump)
    return Population(parents.sketch, np.where(change, moved, parents.choices).astype(np.int32))


def crossover(rng: Generator, mothers: Population, fathers: Population) -> Population:
    """Takes each gene from the mother or the father of the same row, with equal chance; the result is valid or not."""
    from_mother = rng.random(mothers.choices.shape) < 0.5
    return Population(mothers.sketch, np.where(from_mother, mothers.choices, fathers.choices))


def neighbours(space: Space, candidate: Candidate, reach: int = 1) -> Population:
    """Returns all valid candidates that differ in one parameter: up to `reach` positions away if ordered, else any value."""
    base = np.array(candidate.choices, dtype=np.int32)
    rows = []
    for index, parameter in enumerate(space.config_spaces[candidate.sketch].parameters):
        here, count = int(base[index]), len(parameter.values)
        span = range(max(0, here - reach), min(count, here + reach + 1)) if parameter.ordered else range(count)
        for choice in span:
            if choice != here:
                row = base.copy()
                row[index] = choice
                rows.append(row)
    moved = Population(candidate.sketch, np.array(rows, dtype=np.int32).reshape(len(rows), len(base)))
    return take(moved, space.valid(moved))


def swaps(space: Space, candidate: Candidate) -> Population:
    """Returns all valid candidates where two ordered parameters move one position each: along ridges and past `require`s.

    Two factors of one axis often trade against each other: one up and the other down keeps their product, and neither
    move alone is an improvement, or even valid.
    """
    base = np.array(candidate.choices, dtype=np.int32)
    extents = sizes(space.config_spaces[candidate.sketch])
    movable = [
        i for i, p in enumerate(space.config_spaces[candidate.sketch].parameters) if p.ordered and len(p.values) > 1
    ]
    rows = []
    for first, i in enumerate(movable):
        for j in movable[first + 1 :]:
            for up, down in ((1, -1), (-1, 1), (1, 1), (-1, -1)):
                row = base.copy()
                row[i] += up
                row[j] += down
                rows.append(row)
    moved = np.array(rows, dtype=np.int32).reshape(len(rows), len(base))
    inside = np.all((moved >= 0) & (moved < extents), axis=1)
    kept = Population(candidate.sketch, moved[inside])
    return take(kept, space.valid(kept))


def defaults(space: Space) -> list[Candidate]:
    """Returns the default candidate of every sketch that is valid."""
    out = []
    for index, config_space in enumerate(space.config_spaces):
        candidate = Candidate(index, config_space.default)
        if space.valid(population(index, [candidate], len(config_space.parameters)))[0]:
            out.append(candidate)
    return out


def shares(space: Space, count: int) -> list[int]:
    """Says how many of `count` draws each sketch gets: equal parts to begin with, large ones more (fourth root of the size).

    A structure with many numbers has more to explore, but its share must not bury the others: sizes differ by 10^6.
    """
    weights = np.array([float(isqrt(isqrt(min(config_space.size, COUNTED)))) for config_space in space.config_spaces])
    parts = np.floor(count * weights / weights.sum()).astype(int)
    parts[np.argsort(-weights, kind="stable")[: count - int(parts.sum())]] += 1
    return [int(p) for p in parts]
