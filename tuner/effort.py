"""How thorough a search is: three presets, and the single place of every default number of search and learning.

Each part of the search takes one of these dataclasses. `Learning` and `Smoothness` are declared beside the models that use
them, as the cost model stands below the tuner; their numbers are here. `ABLATIONS` are the presets' counterparts with one
idea taken away each: they show what it is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..common.errors import ArgumentError
from ..common.near import did_you_mean
from ..cost_model.learned.boosting import Learning
from ..cost_model.learned.gaussian import Smoothness
from ..cost_model.learned.smooth import Smoothing


@dataclass(frozen=True, slots=True)
class SearchParts:
    """Says which ideas a guided search uses. All of them, except where their worth is measured."""

    draft: bool = (
        True  # the first trials are the best of a large population by the prior; else they are drawn at random
    )
    model: bool = True  # trials are chosen by what was learned from those before; else by the prior alone
    ragged: bool = True  # loops need not come out even; else every factor divides its axis
    diversity: bool = True  # candidates of one batch differ in their features; else they are the first by score
    descent: bool = True  # neighbours of the leaders are tried for their own sake
    blind: int = 0  # trials at random before the model is asked at all


@dataclass(frozen=True, slots=True)
class Draft:
    """The first look at the space, by the prior alone."""

    population: int = 100_000  # valid configs scored, over all sketches
    generations: int = 2  # of evolution on the prior after that: spaces are larger than any population
    children: int = 4096  # in each of them
    parents: int = 64  # of each sketch, the best, that have these children
    genes: float = 2.0  # of a child that differ from its parent, on average
    keep: int = 2048  # the best of all, with their features, from which later rounds also choose
    least: int = 32  # candidates that each sketch keeps at least: the prior may be wrong about a whole structure
    first: int = 12  # trials that are chosen by the prior alone
    sketches: float = 0.25  # share of them that are the best of a sketch each
    slack: float = 1.5  # a drafted trial may be predicted to take this many times the best
    doubted: int = 4  # of the first trials at most, for options that no other one has
    variants: int = 2048  # of the best, with other options, from which these are chosen
    close: float = 1.1  # times the best with an option, up to which a trial is for others as well
    walked: int = 256  # stages of all sketches up to which all are looked at: 15 ms each on an EPYC of Zen 3
    further: int = 4  # sketches of more that are looked at for what their options promise, however large they are


UNTUNED = Draft(population=8_000, generations=4)  # of a compile that knows nothing: 100,000 find nothing better


@dataclass(frozen=True, slots=True)
class Rounds:
    """The search after the draft."""

    batch: int = 10  # trials between two fits of the model
    young: int = 6  # the same up to `grown` results: each tells much while there are few
    grown: int = 40
    growth: int = 24  # with n results a batch has at least n / growth trials: the share of thinking stays bounded
    parents: int = 16  # leaders that have children
    fit: float = 1.5  # times the best, up to which a leader has any
    children: int = 1536  # scored by the model in each generation
    generations: int = 2  # one up to `grown` results
    genes: float = 1.5  # of a child that differ from its parent, on average
    greed: float = 2 / 3  # share of the trials that the model chooses which are its first ones, however alike
    explore: float = 0.06  # share of trials that the model does not choose
    hopeless: float = 3.0  # times the least prior, above which a candidate is not chosen at random either
    near: float = 0.5  # share of trials that are neighbours of the leaders
    leaders: int = 3  # around which neighbours are looked at
    led: int = 6  # results, before which a descent without a model has no leaders
    reach: int = 2  # positions in its domain that a parameter of a neighbour moves at most
    patience: int = 3  # batches without a gain after which most trials are neighbours of the leaders
    gain: float = 0.005  # share of the best time that counts as a gain
    stalled: float = 0.75  # share of neighbours then
    hope: float = 1.0  # how much of the spread counts for a candidate: it is explored for what it might be
    doubt: float = 1e-3  # the least probability to run that a candidate is given: failing costs a trial, not the search
    options: int = 6  # values of a parameter that is a choice more than a number
    untried: int = 2  # trials of a batch that are spent on options that hardly anybody has tried
    twice: int = 2  # trials after which an option is no such one: the moment of a single one may have been a bad one
    portion: int = 3  # trials of a draft, or of earlier runs, that count as chosen together: they are no neighbours
    judged: int = 4  # the best few of a batch, of which the log tells how many the model put first


@dataclass(frozen=True, slots=True)
class Spread:
    """Choosing candidates that are good and differ."""

    shortlist: int = 256  # the best by score, among which it chooses at least
    times: int = 16  # as many times the number wanted are looked at
    shrink: float = 0.7  # of the distance that is asked for, where there are not enough so far apart


@dataclass(frozen=True, slots=True)
class Surrogates:
    """The search of spaces without a prior."""

    first: int = 8  # trials that fill the space: models that know how little they know choose better
    filling: int = 400  # candidates from which they are chosen: corners of the whole space are no good start
    plain: float = 0.5  # share of them with powers of two for sizes: elsewhere all trials can be slow, and say little
    batch: int = 8  # trials between two fits
    growth: int = 24  # with n results a batch has at least n / growth trials
    near: int = 2  # of each batch: neighbours of the leaders
    leaders: int = 3
    pool: int = 20_000  # candidates that the forest scores
    counted: int = 8  # spaces of up to so many times that are counted through instead of drawn from
    parents: int = 16  # leaders that have children, where the space is larger
    genes: float = 2.0  # of a child that differ from its parent, on average
    shortlist: int = 5000  # the best of the pool, which the Gaussian process scores too: it is much slower
    paired: int = 12  # parameters whose products and ratios are shown to the forest
    trees: int = 40
    columns: float = 0.6  # share of the features that a split of a tree may use: trees have to differ
    rows: int = 256  # results that a fit uses
    steps: int = 20  # of the walk over hyperparameters in one fit
    many: int = 96  # results that leave less open: a fit and a choice then take less of everything
    fewer: int = 4  # by which the steps and the shortlist are divided then
    full: int = 3  # draws of hyperparameters that choose then
    failed: float = 2.0  # a failure counts as this many times the slowest


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """The search by crossover and mutation, without a model."""

    founders: int = 24  # random trials before the first child
    parents: int = 16  # the best trials that may have children
    favour: int = 3  # the mean rank of a mother is parents / favour
    explore: float = 0.1  # share of proposals that stay random
    brood: int = 8  # children made for each one that is needed: many are invalid or known
    genes: float = 1.5  # of a child that differ from its parent, on average
    rounds: int = 6  # broods before giving up for this time


@dataclass(frozen=True, slots=True)
class AnnealingSettings:
    """Random moves, accepted more and more strictly."""

    chains: int = 8  # so that a whole batch can be in flight
    start: float = 0.3  # first temperature: a step to a 1.35 times slower config is taken with probability 1/e
    cooling: float = 0.985  # factor for each result
    floor: float = 0.01  # the last temperature
    genes: float = 1.5  # that a move changes, on average
    tries: int = 64  # moves drawn to find one new valid candidate
    patience: int = 24  # results without a step after which a chain goes to the best known candidate


@dataclass(frozen=True, slots=True)
class Portions:
    """Says how many candidates are made at a time where all or random ones are wanted: memory and the cost of a call."""

    drawn: int = 1024  # over all sketches
    counted: int = 256  # of one sketch


@dataclass(frozen=True, slots=True)
class OpeningTrials:
    """Holds what is measured without asking the strategy: the best from elsewhere first, the unscheduled nest where nothing
    runs."""

    seeds: int = 4  # the best of this task on other machines or by older builders
    failing: int = 16  # trials without a single success after which the unscheduled nest is tried
    affordable: float = 0.5  # predicted seconds of one run of it, above which it is left out
    near: float = 1.1  # times the best that is known: one of these tells what seconds were worth then
    loading: int = 8  # trials after which what learning needs is loaded: shorter searches never ask it


@dataclass(frozen=True, slots=True)
class Transfer:
    """Holds what is taken over from other tasks in the database."""

    shapes: int = 4  # of the same family: their best configs are tried, their trials are learned from
    reach: float = 64.0  # shapes whose extents differ by a larger factor in all say nothing
    records: int = 4  # the best of each shape, that are moved into this task's domains
    seeds: int = 6  # of all these, measured first
    others: int = 3  # tasks of other families whose trials are learned from
    rows: int = 200  # of each task


@dataclass(frozen=True, slots=True)
class Sharing:
    """Says how many tasks share one budget."""

    slice: int = 16  # trials in a row for one task
    window: int = 32  # trials whose gain says what comes next
    recent: float = 0.5  # weight of that gain; the rest is hope
    hope: float = 0.5  # the best of n trials is hoped to become better by this share of itself, over n, with one more
    patience: int = 64  # trials without a single success after which a task has to wait for all others

    def within(self, trials: int | None, tasks: int) -> Sharing:
        """Returns it with slices so short that so many trials reach every task, and half of them can still go where it pays."""
        if trials is None:
            return self
        return replace(self, slice=max(1, min(self.slice, trials // (2 * tasks))))


LEARNING = Learning(
    members=4,  # with more the spread is finer and fitting slower
    rows=1500,  # of one fit: its cost stays bounded as data grows
    trees=80,
    more=16,
    anew=1.25,  # a model that only ever adds trees never forgets what few samples made it believe
    depth=3,  # few samples: deeper trees fit noise
    step=0.2,
    share=0.8,  # of rows and of columns that a tree sees
    leaf=1.0,  # the least weight of a leaf
    enough=12,  # rows held out, below which they cannot tell when to stop
    patience=12,  # trees without a gain on what is held out
    exact=1000,  # rows up to which every split is tried, instead of histograms of the features
    foreign=1 / 3,  # of the rows may be of other tasks
    crowd=1.0,  # times as much as the task's own samples those of all other tasks count at most
    kept=1 / 3,  # of the rows are the best of their task, and as many the newest; the rest is drawn
    failures=3,  # and as many successes before a classifier is trained
    failure_trees=20,
    smoothing=Smoothing(
        alone=20,
        rows=64,
        scales=(0.3, 0.6, 1.2, 2.4),
        noises=(0.01, 0.1, 0.5),
        clip=3.0,
    ),
)
SMOOTHNESS = Smoothness(
    noise=-5.0,  # logarithm of the noise's share of the variance that is expected,
    noise_width=2.0,  # and how far from it is not surprising
    scale_width=1.5,  # the same for the logarithms of the inputs' scales, of which 0 is expected
    jump=0.5,  # first width of the walk over these
    moving=0.3,  # share of them that one step moves
    wider=1.1,  # factor of the width after a step that was taken
    narrower=0.96,  # and after any other
    least=0.15,  # width
    most=1.5,
    draws=6,  # one for each choice of a batch that is not a neighbour of the leaders
)


@dataclass(frozen=True, slots=True)
class Effort:
    """Says how thorough a search is where the caller does not say."""

    name: str
    trials: int
    parts: SearchParts = SearchParts()
    draft: Draft = Draft()
    learning: Learning = LEARNING
    rounds: Rounds = Rounds()
    spread: Spread = Spread()
    surrogates: Surrogates = Surrogates()
    smoothness: Smoothness = SMOOTHNESS
    evolution: EvolutionSettings = EvolutionSettings()
    annealing: AnnealingSettings = AnnealingSettings()
    portions: Portions = Portions()
    opening: OpeningTrials = OpeningTrials()
    sharing: Sharing = Sharing()
    transfer: Transfer = Transfer()
    confirm: int = 12  # contenders measured again, interleaved, before a winner is named
    margin: float = 1.10  # contenders are at most this much slower than the best, ...
    least: int = 4  # but for so many: the best may have had a good moment
    grace: float = 0.1  # share of a time budget after its end in which what is in flight may still come home


QUICK = Effort(
    "quick",
    trials=32,
    # Half the population would save a tenth of a second: most of it goes on the sketches.
    draft=Draft(generations=1, first=8),
    learning=replace(LEARNING, members=3),
    confirm=4,
)
NORMAL = Effort("normal", trials=128)
FULL = Effort(
    "full",
    trials=1000,
    draft=Draft(population=300_000, generations=4),
    learning=replace(LEARNING, rows=3000),
    confirm=16,
)
EFFORTS = {effort.name: effort for effort in (QUICK, NORMAL, FULL)}

ABLATIONS = {
    "without draft": SearchParts(draft=False),
    "without learned model": SearchParts(model=False),
    "divisors only": SearchParts(ragged=False),
    "without diversity": SearchParts(diversity=False),
    "without descent": SearchParts(descent=False),
    "random until 100 samples": SearchParts(blind=100),
}


def effort_named(name: str | Effort) -> Effort:
    """The preset of this name; an effort of the caller's own stays what it is. Raises ArgumentError for any other."""
    if isinstance(name, Effort):
        return name
    if name not in EFFORTS:
        near = did_you_mean(name, EFFORTS)
        raise ArgumentError("unknown effort", expected="one of " + ", ".join(EFFORTS), found=repr(name), advice=near)
    return EFFORTS[name]


def ablated(effort: Effort, ablation: str) -> Effort:
    """The effort with one idea taken away: a key of ABLATIONS. Its name says so, as runs are told apart by it."""
    return replace(effort, name=f"{effort.name}, {ablation}", parts=ABLATIONS[ablation])
