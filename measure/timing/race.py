"""A confirmation: which of the last few contenders is the fastest.

They are timed in rounds, all once in a round, each after a run that brings its own memory back into the caches (twelve with
64 MiB of constants each do not fit there together: 2.9 ms instead of 1.9). What slows all down in a round is taken out
(`evened`); all rounds count then, alike for all. Who is behind the leader after `TimingPlan.race` rounds runs no more, where
the times of both can be believed. Where times still disagree from round to round, more rounds follow.

On two cores that others share, all is a third slower for a second, or for a minute. The median of rounds that are half of one
kind and half of the other is of either, and of two kernels the one that was 5% faster seemed 20% slower. Of four programs, each
in four processes, the ratios of kernels by medians of nine rounds differed by 2 to 7% from process to process (standard
deviation; one by 22%), evened by 2 to 5%; by medians of 25 rounds by 0.8 to 3.4%, evened by 0.9 to 2.3%. Lower quartiles or the
fastest of the rounds were up to five times as uncertain as medians.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import numpy as np

from .method import Repeat, TimingPlan, doubt, runs_per_repeat, wild

SWEEPS = 20  # after which a median polish hardly changes any more


def race(repeats: Sequence[Repeat], orders: Iterable[Sequence[int]], plan: TimingPlan) -> list[tuple[float, ...]]:
    """Times several kernels in rounds.

    Args:
        repeats: one for each kernel, each run before.
        orders: for each round the order in which the kernels are timed.

    Returns:
        For each kernel the seconds of one run in each round that it ran, evened: they can be compared, whatever the rounds.
    """
    counts = [runs_per_repeat(repeat, plan, warm=True)[0] for repeat in repeats]
    times: list[list[float]] = [[] for _ in repeats]
    racing, leader, more = set(range(len(repeats))), 0, 0.0
    for number, order in enumerate(orders, 1):
        for index in order:
            if index in racing:
                # in one long run the others' memory in the caches hardly counts
                warm = repeats[index](1) if counts[index] > 1 else 0.0
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
    return evened(times)


def evened(times: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    """Times without what slowed all down in a round: what each kernel takes, and how slow each round was, by a median polish
    (Tukey, Exploratory Data Analysis, 1977) of the logarithms. What disturbs one of several is no matter of the round.

    Args:
        times: for each kernel the seconds in the first rounds, positive; those of one that ran no more are fewer.
    """
    if len(times) < 2:
        return [tuple(of_one) for of_one in times]
    logs = np.full((len(times), max(map(len, times))), np.nan)
    for row, of_one in zip(logs, times, strict=True):
        row[: len(of_one)] = np.log(of_one)
    slow = np.zeros(logs.shape[1])
    for _ in range(SWEEPS):
        usual = np.nanmedian(logs - slow, axis=1)
        slow = np.nanmedian(logs - usual[:, None], axis=0)
    even = np.exp(logs - (slow - np.median(slow)))
    return [tuple(row[: len(of_one)].tolist()) for row, of_one in zip(even, times, strict=True)]


def _ratios(times: Sequence[float], leader: Sequence[float]) -> list[float]:
    """Says how many times slower than the leader, in the rounds that both ran."""
    return [one / best for one, best in zip(times, leader, strict=False)]


def _lost(times: Sequence[float], leader: Sequence[float], plan: TimingPlan) -> bool:
    """Says whether one is behind for good: in the middle of the rounds and at its best in these, or, where times are far apart,
    whatever the middle is in doubt about."""
    ratios = _ratios(times, leader)
    if wild(times, plan) or wild(leader, plan):
        return len(times) >= plan.rounds and median(ratios) * (1.0 - 2.0 * doubt(ratios)) > plan.lost
    return min(median(ratios), min(times) / min(leader[: len(times)])) > plan.lost
