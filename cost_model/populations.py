"""Populations whose candidates have different plans: each plan is walked once, for those that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..schedules.extents import Extent
from ..schedules.loops import LoopTree, Scope
from ..schedules.opened import with_extents
from ..schedules.plan.stage import Plan, plan_of
from ..schedules.plan.storage import Home
from ..schedules.plan.variants import answered, questions

Rows = NDArray[np.intp]
PRIVATE = (Scope.REGISTER, Scope.STACK, Scope.SCRATCH)


def told_apart(gpu: bool) -> Callable[[Home], object]:
    """Returns by what a cost model tells storage apart: registers from memory; on a GPU also what a block shares from what is a
    thread's own."""
    if gpu:
        return lambda home: Scope.REGISTER if home.scope in PRIVATE else home.scope
    return lambda home: home.scope is Scope.REGISTER


def for_each_plan(
    tree: LoopTree, gpu: bool, count: int, walk: Callable[[LoopTree, Plan, int], NDArray[Any]]
) -> NDArray[Any]:
    """Returns what a walk gives, a row for each of `count` candidates: one walk for those of each plan, with their numbers
    alone."""
    plan = plan_of(tree, gpu)
    asked = questions(plan, told_apart(gpu))
    if not asked:
        return walk(tree, answered(plan, (), ()), count)
    answers = np.stack([np.broadcast_to(np.asarray(q.answer), (count,)) for q in asked], axis=1)
    parts = []
    for _, rows in groups(answers):
        members = _only(tree, rows, count)
        parts.append((rows, walk(members, one_plan(members, gpu), len(rows))))
    found = np.empty((count, *parts[0][1].shape[1:]), parts[0][1].dtype)
    for rows, part in parts:
        found[rows] = part
    return found


def one_plan(tree: LoopTree, gpu: bool) -> Plan:
    """The plan that a config has, or all candidates of a population. ValueError where these differ."""
    plan = plan_of(tree, gpu)
    if asked := questions(plan, told_apart(gpu)):
        raise ValueError(f"the plans of candidates differ in {asked[0].stage}: use for_each_plan")
    return answered(plan, (), ())


def groups(answers: NDArray[Any]) -> Iterator[tuple[Sequence[int], Rows]]:
    """Each distinct row of a table, and the places where it stands."""
    distinct, of = np.unique(answers, axis=0, return_inverse=True)
    for number, answer in enumerate(distinct):
        yield [int(x) for x in answer], np.flatnonzero(of.reshape(-1) == number)


def _only(tree: LoopTree, rows: Rows, count: int) -> LoopTree:
    """The tree with the numbers of some candidates. What was one array is one array again: walks look at identity."""
    known: dict[int, Extent] = {}

    def part(extent: Extent) -> Extent:
        if not isinstance(extent, np.ndarray) or extent.shape != (count,):
            return extent
        if id(extent) not in known:
            known[id(extent)] = extent[rows]
        return known[id(extent)]

    return with_extents(tree, part)
