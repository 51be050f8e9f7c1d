"""Groups that sum up the same data become one kernel, in which rules may do both in one pass (schedules/rules/cpu/siblings.py).

A sum and a sum of squares, the extrema of a quantised tensor, the gradients of a scale and a shift: each is a group of its own
where different stages read them. Together they are no slower: what the rules leave apart stays two nests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from ...common.cached import cached_property
from ...schedules.access import is_anchor
from ...tensor.indices.members import MEMBERS_AT_MOST
from ...tensor.program import Program, Stage
from ...tensor.rewrites.siblings.alike import are_siblings, data_of, is_behind


def with_siblings(program: Program, groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """The groups, in an order in which kernels run, with those in one that hold siblings."""
    now = _Groups(program, [list(group) for group in groups])
    for one, other in _pairs(program, groups):
        now = now.merged(one, other)
    return now.groups


def _pairs(program: Program, groups: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Sums of different groups that read the same data, the earlier one first."""
    alike: dict[object, list[tuple[Stage, Sequence[str]]]] = defaultdict(list)
    for group in groups:
        for name in group:
            stage = program.stage(name)
            if stage.combiner not in (None, "fold") and not is_anchor(stage):
                sizes = tuple(axis.extent for axis in stage.axes), sorted(axis.extent for axis in stage.reduction)
                for tensor in sorted(data_of(program, stage)):
                    alike[tensor, str(sizes)].append((stage, group))
    for found in alike.values():
        for (one, mine), (other, theirs) in combinations(found, 2):
            if mine is theirs or not are_siblings(program, one, other):
                continue
            apart = not is_behind(program, one, other) and not is_behind(program, other, one)
            if apart and _alone(program, one, mine) and _alone(program, other, theirs):
                yield one.name, other.name


def _alone(program: Program, stage: Stage, group: Sequence[str]) -> bool:
    """Says whether nobody else in a group goes over what a sum reads, as who normalises the rows of which it is the sum does:
    there the data are near anyway."""
    data = {read.tensor for read in stage.reads()}
    others = (program.stage(name) for name in group if name != stage.name)
    return all(data.isdisjoint(read.tensor for read in other.reads()) for other in others)


@dataclass(frozen=True)
class _Groups:
    """Groups of stages in an order in which they run."""

    program: Program
    groups: list[list[str]]
    counts: frozenset[tuple[str, int]] = frozenset()  # siblings of groups with more than one, by the first stage

    @cached_property
    def place(self) -> dict[str, int]:
        """Stage -> the place of its group."""
        return {name: number for number, group in enumerate(self.groups) for name in group}

    @cached_property
    def needs(self) -> list[set[int]]:
        """The groups whose results each group reads. What stands between groups is no kernel: memory under another shape."""
        return [self._needed(number, group) for number, group in enumerate(self.groups)]

    def _needed(self, number: int, group: Sequence[str]) -> set[int]:
        found: set[int] = set()
        waiting, seen = list(group), set(group)
        while waiting:
            for read in self.program.stage(waiting.pop()).reads():
                producer = self.program.producers.get(read.tensor)
                if producer is None or producer.name in seen:
                    continue
                seen.add(producer.name)
                place = self.place.get(producer.name)
                if place is None:
                    waiting.append(producer.name)
                elif place != number:
                    found.add(place)
        return found

    def merged(self, one: str, other: str) -> _Groups:
        """The same with the groups of two stages as one, unless a group between them needs one and is needed by the other."""
        first, last = sorted((self.place[one], self.place[other]))
        known = dict(self.counts)
        count = sum(known.get(self.groups[place][0], 1) for place in (first, last))
        if first == last or count > MEMBERS_AT_MOST:
            return self
        before: set[int] = set()
        waiting = [last]
        while waiting:
            new = {n for n in self.needs[waiting.pop()] if n > first and n not in before}
            before |= new
            waiting += new
        if any(first in self.needs[place] for place in before):
            return self
        between = range(first + 1, last)
        together = [*self.groups[first], *self.groups[last]]
        order = [
            *self.groups[:first],
            *(self.groups[place] for place in between if place in before),
            together,
            *(self.groups[place] for place in between if place not in before),
            *self.groups[last + 1 :],
        ]
        return _Groups(self.program, order, frozenset({**known, together[0]: count}.items()))
