"""What a guided search does with its trials, apart from what every strategy promises."""

from __future__ import annotations

import numpy as np

from contracts.spaces import ManyOptions, ToySpace
from tilesmith.measure.result import Failure, Measurement, Status
from tilesmith.schedules.space import Candidate
from tilesmith.schedules.space_ops import enumerate_configs, population, sample
from tilesmith.tuner.effort import NORMAL
from tilesmith.tuner.search.guided import Guided
from tilesmith.tuner.search.learner import Learner
from tilesmith.tuner.search.options import missing
from tilesmith.tuner.search.pool import described, pool_of
from tilesmith.tuner.search.prior_guided import PriorGuided
from tilesmith.tuner.search.strategy import Result, candidates

SPACE = ToySpace()


def told(status: Status, count: int, seed: int = 0) -> list[Result]:
    """So many random candidates that all ended in one way, and as many that ran."""
    drawn = candidates(sample(SPACE, np.random.default_rng(seed), 0, 2 * count))
    ended = Measurement(status, failure=Failure("time", "as the test wants it"))
    ran = [(c, Measurement(Status.OK, times=(1e-3,))) for c in drawn[count:]]
    return [*((c, ended) for c in drawn[:count]), *ran]


def test_a_trial_without_a_clock_is_no_failure() -> None:
    """A crash lowers the chance that its neighbours are given; times that cannot be trusted say nothing."""
    pool, scores = pool_of(SPACE, [sample(SPACE, np.random.default_rng(1), 0, 200)]), {}
    for status in (Status.CRASH, Status.UNSTABLE):
        learner = Learner(SPACE, 0, NORMAL, [])
        learner.learn(told(status, 20), {})
        scores[status] = learner.score(pool)
    without = Learner(SPACE, 0, NORMAL, [])
    without.learn(told(Status.CRASH, 20)[20:], {})
    assert np.array_equal(scores[Status.UNSTABLE], without.score(pool))
    assert scores[Status.CRASH].mean() > scores[Status.UNSTABLE].mean()


def test_results_after_an_unstable_one_are_all_learned_from() -> None:
    """One that is left out does not shift which are new."""
    results = told(Status.UNSTABLE, 5)
    late, once = Learner(SPACE, 0, NORMAL, []), Learner(SPACE, 0, NORMAL, [])
    late.learn(results[:7], {})
    late.learn(results, {})
    once.learn(results, {})
    more = [*results, *told(Status.CRASH, 1, seed=2)]
    late.judge(more, {})
    once.judge(more, {})
    assert [r.rounds[-1].known for r in (late, once)] == [5, 5] and late.rounds[-1].batch == 2


def test_batches_can_be_held_out_from_the_first_fit_on() -> None:
    """Neither all of a draft nor all trials of earlier runs are one batch."""
    search = PriorGuided(SPACE, 0, NORMAL)
    first = search.ask(NORMAL.draft.first)
    search.tell([(c, SPACE.measure(c)) for c in first])
    assert len({search._batches[c] for c in first}) == NORMAL.draft.first // NORMAL.rounds.portion
    again = PriorGuided(SPACE, 1, NORMAL)
    again.tell([(c, SPACE.measure(c)) for c in first])
    of_others = {again._batches[c] for c in first}
    assert len(of_others) == NORMAL.draft.first // NORMAL.rounds.portion and max(of_others) < 0
    again.judge()
    assert not again.rounds, "the model of this search chose none of these"


def test_options_that_hardly_a_trial_had_get_two_each_and_no_more() -> None:
    space = ManyOptions()
    leader = Candidate(0, (5, 4, 6, 2, 0, 0, 0, 0, 0, 0))
    search = PriorGuided(space, 0, NORMAL)
    search.tell([(leader, space.measure(leader))])
    seen: list[Candidate] = []
    while options := search._untried([leader]):
        assert len(options) <= NORMAL.rounds.untried
        search._keep(options, len(options))  # planned, and not home yet
        search._history.propose(options, len(options))
        seen += options
    all_options = missing(space.config_spaces[0], [], NORMAL.rounds.options, 1)
    had = [[c.choices[place] == option for place, option in all_options] for c in (leader, *seen)]
    valid = np.sum(had, axis=0)
    assert valid.min() == NORMAL.rounds.twice and len(set(seen)) == len(seen) <= 2 * len(all_options)
    sizes = {
        c.choices[n]
        for c in seen
        for n in range(4)
        if len(space.config_spaces[0].parameters[n].values) > NORMAL.rounds.options
    }
    assert sizes <= set(leader.choices), "only options change"
    dear = [sum(c.choices[6:9]) for c in seen]
    assert dear[0] <= min(dear) + 1, "the cheapest go first"


def test_the_first_trial_is_what_the_prior_likes_best() -> None:
    first = PriorGuided(SPACE, 0, NORMAL).ask(1)[0]
    everything = [SPACE.prior(part) for sketch in (0, 1) for part in enumerate_configs(SPACE, sketch)]
    least = min(float(prior.min()) for prior in everything if prior is not None)
    assert SPACE.prior(population(first.sketch, [first], len(first.choices))) == least


def test_sizes_are_told_by_their_logarithms() -> None:
    rows = sample(SPACE, np.random.default_rng(0), 0, 50)
    raw = described(SPACE, rows)[:, SPACE.features(rows).shape[1] :]
    assert np.allclose(raw[:, 0], np.log2(rows.choices[:, 0] + 1.0))


def test_what_came_home_after_the_last_plan_is_judged_when_asked() -> None:
    search = Guided(SPACE, 0)
    search.tell([(c, SPACE.measure(c)) for c in search.ask(8)])
    assert not search.rounds
    search.judge()
    assert [(r.known, r.batch) for r in search.rounds] == [(0, 8)]
    search.judge()
    assert len(search.rounds) == 1
