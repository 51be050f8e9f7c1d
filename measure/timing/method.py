"""The timing method: how long one run of a kernel takes, and whether that figure can be trusted.

The loop over runs is compiled code (runtime/devices/cpu/repeat.py), so Python costs nothing inside it. One *repeat* is as many
runs as last `shortest` seconds together; its time divided by the number of runs is one entry of `times`. On processors a
repeat is taken in pieces, and all of it counts as its lower quartile of pieces (`undisturbed`): of a mean each interruption
is a part, however short.

    warm-up      the verified run, and where it is short a repeat; where it is very long, it is already enough, and where it is
                 far above the best known time, so is a second single run that is no better
    repeats      `repeats` of them; what is clearly slower than the best is dropped after the first
    fewer        of what is no contender, once they agree: that it is slower is known, how much need not be
    more         while the interquartile range exceeds `spread` of the median, or the median is far above the fastest, up to
                 `most_repeats` and `budget` seconds
    verdict      times that never settled are cut down to the fastest third; where even those are further apart than
                 `unstable`, they are kept for the reader, but the trial counts as unstable

Noise only ever adds time. Hence the fastest third (on a machine that others use too, it is what the kernel takes when it
is let run), and hence a run or a repeat that looks slow enough to be dropped is given one more chance: on a busy machine
a kernel's first run of many threads can take 50 times as long as its next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import median, quantiles

PIECE = 2.5e-4  # seconds of a piece of a repeat, or one run where that takes longer

Repeat = Callable[[int], float]  # runs the kernel that many times, returns the seconds of all together


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """The numbers of the method; seconds unless said otherwise.

    A kernel of 6 ms costs about 35 ms in all (5 repeats of one run), one of 10 us about 14 ms. Repeats of 4 ms were no better
    than those of 2 ms: what makes a time wrong lasts longer than either, and is taken out by other means (drift.py).
    """

    shortest: float = 2e-3
    repeats: int = 5
    few_repeats: int = 3  # of what is `behind` the best known time
    most_repeats: int = 13
    budget: float = 0.12  # after which 3 repeats are enough
    long_budget: float = 0.6  # after which one repeat is enough
    warming: float = 5e-3  # after so long a verified run all is warm
    spread: float = 0.08  # interquartile range / median with which the method is content
    settled: float = 0.15  # the same, above which only the fastest third counts
    unstable: float = 0.30  # the same, above which even these are not to be trusted
    behind: float = 1.06  # this many times the best known time is no contender
    abandon: float = 1.25  # this many times the best known time is clearly slower
    abandon_cold: float = 4.0  # the same for the warm-up run, which pays for cold caches and sleeping threads
    cold_cost: float = 1e-3  # what a warm-up run may cost on top
    race: int = 4  # rounds of a confirmation (race.py) that all contenders run
    lost: float = 1.03  # times the leader's, round by round, with which one is out of the race
    rounds: int = 9  # of a confirmation, if they agree
    most_rounds: int = 25  # if they do not
    patience: float = 0.5  # which more rounds may take
    agreed: float = 0.012  # doubt of a ratio with which the method is content


SEARCH_PLAN = TimingPlan()
CONFIRM_PLAN = TimingPlan(shortest=5e-3)
# A GPU is timed by its own clock, and each run pays for emptying the L2 on top.
DEVICE_PLAN = TimingPlan(shortest=5e-4, most_repeats=21, budget=0.06, spread=0.05)
DEVICE_CONFIRM_PLAN = TimingPlan(shortest=4e-3)
# What an emulation takes says nothing about a device: a few runs, whatever they are.
EMULATION_PLAN = TimingPlan(shortest=0.0, repeats=1, budget=0.0, long_budget=0.0, settled=inf, unstable=inf, agreed=inf)
PLANS = {
    "host": (SEARCH_PLAN, CONFIRM_PLAN),
    "device": (DEVICE_PLAN, DEVICE_CONFIRM_PLAN),
    "emulation": (EMULATION_PLAN, EMULATION_PLAN),
}  # of search and confirmation, by the clock of the device


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one run, one entry for each repeat, in the order they were taken."""

    times: tuple[float, ...]
    abandoned: bool = False
    trusted: bool = True

    @property
    def seconds(self) -> float:
        """The median."""
        return median(self.times)

    @property
    def spread(self) -> float:
        """Interquartile range divided by the median; 0 for less than three repeats."""
        return relative_spread(self.times)


def relative_spread(times: Sequence[float]) -> float:
    """Interquartile range divided by the median; 0 for less than three times."""
    if len(times) < 3:
        return 0.0
    low, middle, high = quantiles(times, n=4, method="inclusive")
    return (high - low) / middle if middle > 0 else 0.0


def doubt(values: Sequence[float]) -> float:
    """Says how far the median of these may be off: interquartile range / median / square root of their number."""
    return float(relative_spread(values) / max(len(values), 1) ** 0.5)


def undisturbed(repeat: Repeat) -> Repeat:
    """The same runs in pieces, of which the lower quartile stands for all: what came between a few of them is left out.

    On a virtual machine of two cores the times of one kernel, as medians of five repeats of 2 ms each, had standard deviations
    of 3 to 9% (seven kernels of 30 us to 900 us); as medians of five ratios to another kernel that took turns with it
    (drift.py) 3 to 5% of means, and 0.6 to 1.8% of lower quartiles of pieces.
    """

    def run(count: int) -> float:
        times: list[float] = []
        left, size = count, 1
        while left:
            size = min(size, left)
            times.append(repeat(size) / size)
            left -= size
            size = max(round(PIECE / max(min(times), 1e-9)), 1)
        return count * sorted(times)[(len(times) - 1) // 4]

    return run


def time_kernel(
    repeat: Repeat,
    first: float,
    limit: float | None = None,
    plan: TimingPlan = SEARCH_PLAN,
    pace: Callable[[], float] = lambda: 1.0,
) -> Timing:
    """Times a kernel that has just been run once.

    Args:
        repeat: runs it n times in compiled code and returns the seconds of all n together.
        first: seconds of the warm-up run.
        limit: the best time known; what is clearly slower is abandoned. None or infinity: nothing is.
        pace: how many times slower all is now than when the best was timed; asked before a repeat counts as too slow.
    """
    far = float("inf") if limit is None else plan.abandon_cold * limit + plan.cold_cost
    if first > plan.long_budget:  # what a cold start adds to so long a run is not worth another one
        return Timing((first,), abandoned=first > far)
    if first > far:
        again = repeat(1)
        if again > far:
            return Timing((min(first, again),), abandoned=True)
    count, once, spent = runs_per_repeat(repeat, plan, warm=first > plan.warming)
    times = [once]
    if limit is not None and once > plan.abandon * limit:
        again = repeat(count) / count
        spent += again * count
        times.append(again)
        if min(times) > plan.abandon * limit * pace():
            return Timing((min(times),), abandoned=True)
    behind = inf if limit is None else plan.behind * limit
    while not _enough(times, spent, plan, behind):
        seconds = repeat(count)
        spent += seconds
        times.append(seconds / count)
    return settled(times, plan)


def settled(times: Sequence[float], plan: TimingPlan = SEARCH_PLAN) -> Timing:
    """The verdict on all repeats of a kernel; see the head of this file."""
    if wild(times, plan):
        fastest = sorted(times)[max(2, (len(times) - 1) // 3)]
        times = [seconds for seconds in times if seconds <= fastest]
    return Timing(tuple(times), trusted=relative_spread(times) <= plan.unstable)


def runs_per_repeat(repeat: Repeat, plan: TimingPlan, warm: bool) -> tuple[int, float, float]:
    """(runs in one repeat, seconds of one run as the first repeat saw it, seconds spent).

    The estimate starts at one run and is scaled up at most 100 times a step: what a single run of some microseconds takes
    says little, because it pays for waking the threads. `warm`: the first repeat that is long enough counts; else it warms the
    caches, and one more follows (softmax of 4096x1024 after its check: 1.4, 1.2, 0.8 ms, and from the fourth run on 0.6).
    """
    count, spent = 1, 0.0
    while True:
        seconds = repeat(count)
        spent += seconds
        enough = seconds >= plan.shortest * 0.75
        if enough and warm:
            return count, seconds / count, spent
        wanted = plan.shortest / max(seconds, 1e-9)
        count = max(round(count * wanted), 1) if enough else count * min(100, max(2, ceil(wanted)))
        warm = warm or enough


def _enough(times: Sequence[float], spent: float, plan: TimingPlan, behind: float) -> bool:
    count = len(times)
    if count >= plan.most_repeats or spent > plan.long_budget:
        return True
    content = relative_spread(times) <= plan.spread and not _mixed(times, plan)
    if spent > plan.budget:
        return count >= 3 and (content or spent > 3 * plan.budget)
    return content and count >= (plan.few_repeats if min(times) > behind else plan.repeats)


def wild(times: Sequence[float], plan: TimingPlan) -> bool:
    """Says whether the middle of these times says little."""
    return relative_spread(times) > plan.settled or _mixed(times, plan)


def _mixed(times: Sequence[float], plan: TimingPlan) -> bool:
    """Says whether most repeats are far above the fastest, however alike: another process had a core, and let it go once."""
    return median(times) > (1.0 + plan.settled) * min(times)
