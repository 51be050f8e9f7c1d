"""A confirmation: which of the last few contenders is the fastest.

They are timed in rounds, all once in a round, so that a drift of the machine touches all alike; each after a run that brings
its own memory back into the caches (twelve with 64 MiB of constants each do not fit there together: 2.9 ms instead of 1.9).
Who is behind the leader after `TimingPlan.race` rounds runs no more, where the times of both can be believed.

Where the ratios to the leader disagree from round to round, more rounds follow. On two cores that others share, with 5 to 25%
(standard deviation) from one run to the next, the ratios of kernels by 9 rounds differed by 2 to 7% from process to process, of
one by 17%; by 25 rounds by 1% (matrix products) to 3% (a transpose). That is by medians. Lower quartiles were up to twice, the
fastest up to five times as uncertain. All rounds count therefore: of times cut down to the fastest, each contender would be
judged by other moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from .timing import Repeat, TimingPlan, doubt, runs_per_repeat, wild


def race(repeats: Sequence[Repeat], orders: Iterable[Sequence[int]], plan: TimingPlan) -> list[tuple[float, ...]]:
    """Times several kernels in rounds.

    Args:
        repeats: one for each kernel, each run before.
        orders: for each round the order in which the kernels are timed.

    Returns:
        For each kernel the seconds of one run, one entry for each round. What lost the race has one entry: its ratio to the
        leader, in the leader's time of all rounds.
    """
    counts = [runs_per_repeat(repeat, plan, warm=True)[0] for repeat in repeats]
    times: list[list[float]] = [[] for _ in repeats]
    racing, leader, more = set(range(len(repeats))), 0, 0.0
    for number, order in enumerate(orders, 1):
        for index in order:
            if index in racing:
                warm = (
                    repeats[index](1) if counts[index] > 1 else 0.0
                )  # else the others' memory in the caches hardly counts
                seconds = repeats[index](counts[index])
                times[index].append(seconds / counts[index])
                more += warm + seconds if number > plan.rounds else 0.0
        leader = min(racing, key=lambda index: median(times[index]), default=leader)
        if number >= plan.race:
            racing = {index for index in racing if not _lost(times[index], times[leader], plan)}
        if number >= plan.most_rounds or more > plan.patience:
            break
        if number >= plan.rounds and all(doubt(_ratios(times[i], times[leader])) <= plan.agreed for i in racing):
            break
    return [_in_all_rounds(of_one, times[leader]) for of_one in times]


def _ratios(times: Sequence[float], leader: Sequence[float]) -> list[float]:
    """How many times slower than the leader, in the rounds that both ran."""
    return [one / best for one, best in zip(times, leader, strict=False)]


def _lost(times: Sequence[float], leader: Sequence[float], plan: TimingPlan) -> bool:
    """Whether one is behind for good: in the middle of the rounds and at its best in these, or, where times are far apart,
    whatever the middle is in doubt about."""
    ratios = _ratios(times, leader)
    if wild(times, plan) or wild(leader, plan):
        return len(times) >= plan.rounds and median(ratios) * (1.0 - 2.0 * doubt(ratios)) > plan.lost
    return min(median(ratios), min(times) / min(leader[: len(times)])) > plan.lost


def _in_all_rounds(times: Sequence[float], leader: Sequence[float]) -> tuple[float, ...]:
    """Who lost stays behind by as much as in the rounds that it ran, whatever the machine did later."""
    if len(times) == len(leader):
        return tuple(times)
    return (median(_ratios(times, leader)) * median(leader),)
