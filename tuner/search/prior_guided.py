"""The search of spaces with a prior: draft by the prior, verify by a learned model, finish by coordinate descent.

    first batch     the best of a very large draft, spread out over different structures and shapes   (draft.py)
                    at its end options that none of these has: the prior may be wrong about them      (options.py)
    later batches   the best by the learned model among the draft, children of the leaders, and all
                    neighbours of the leaders; different from each other; a few that the model would not choose
    no more gains   mostly neighbours of the leaders: coordinate descent                               (Droplet search)

`effort.SearchParts` tells which of these ideas may be taken away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ...cost_model.learned.model import Samples
from ...schedules.space import Candidate, Population, Space
from ...schedules.space_ops import concatenate, crossover, group, mutate, neighbours, population, swaps, take, unique
from ..effort import Effort
from .draft import draft, drawn
from .learner import Learner
from .options import missing, mixed, telling
from .pool import CandidatePool, Vector, joined, pool_of, prior_of, scales, spread_out
from .random import shuffled
from .rounds import Round
from .strategy import History, Result


class PriorGuided:
    """Plans `effort.rounds.batch` trials at a time; a new plan when they are all asked for."""

    def __init__(self, space: Space, seed: int, effort: Effort, known: Sequence[Samples] = ()) -> None:
        self._space, self._effort = space, effort
        self._rng = np.random.default_rng(seed)
        self._history = History(space)
        self._stream = shuffled(space, self._rng, self._history.seen, effort.portions)
        self._learner = Learner(space, seed, effort, known)
        self._plan: Iterator[Candidate] = iter(())
        self._batches: dict[Candidate, int] = {}  # in which batch a candidate was chosen; below 0: not by this search
        self._number = self._others = 0  # of batches, and of candidates that others chose
        self._draft: CandidatePool | None = None
        self._scales: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
        self._best_by_round: list[float] = []

    @property
    def rounds(self) -> list[Round]:
        """Says how good the model was on each batch."""
        return self._learner.rounds

    def tell(self, results: Sequence[Result]) -> None:
        """Keeps the results for the next plan."""
        self._history.tell(results)
        for candidate, _ in results:
            if candidate not in self._batches:
                self._batches[candidate] = -1 - self._others // self._effort.rounds.portion
                self._others += 1

    def prepare(self) -> None:
        """Loads what the second plan needs."""
        self._learner.prepare()

    def judge(self) -> None:
        """Adds to `rounds` what came home since the last plan."""
        self._learner.judge(self._history.results, self._batches)

    def ask(self, count: int) -> list[Candidate]:
        """Takes from the plan; from the random stream when there is nothing left to plan with."""
        out = self._history.propose(self._plan, count)
        while len(out) < count:
            known = self._draft is not None
            plan = self._make_plan()
            self._keep(plan, len(plan) if known else self._effort.rounds.portion)
            self._plan = iter(plan)
            more = self._history.propose(self._plan, count - len(out))
            if not more:
                return out + self._history.propose(self._stream, count - len(out))
            out += more
        return out

    def _keep(self, plan: Sequence[Candidate], portion: int) -> None:
        """Notes what was chosen together: a draft's candidates are no neighbours, so that parts of it can be held out."""
        for start in range(0, len(plan), max(portion, 1)):
            self._number += 1
            self._batches |= dict.fromkeys(plan[start : start + portion], self._number)

    def _make_plan(self) -> list[Candidate]:
        """The next batch, the most promising first."""
        parts, settings, known = self._effort.parts, self._effort.draft, len(self._history.results)
        if known < parts.blind:
            return list(islice(self._stream, min(self._effort.rounds.batch, parts.blind - known)))
        fresh = self._draft is None
        if self._draft is None:
            self._draft = (draft if parts.draft else drawn)(self._space, self._rng, settings)
            self._scales = scales(self._draft.features)
        if (fresh and known < settings.first) or not self._history.leaders(1):
            self._learner.begin()
            return self._first(self._draft)
        self._learner.learn(self._history.results, self._batches)
        return self._next(self._draft)

    def _first(self, pool: CandidatePool) -> list[Candidate]:
        """The best of the draft, spread out; each sketch that the prior does not rule out is among them, and at the end what
        the prior may be wrong about."""
        settings = self._effort.draft
        fresh = self._fresh(pool)
        if not len(fresh):
            return []
        if not self._effort.parts.draft:
            return self._explore(fresh, settings.first)
        if self._learner.ready:  # trained on other tasks
            fresh = replace(fresh, prior=np.exp(self._learner.score(fresh)))
        fine = fresh.rows(np.flatnonzero(fresh.prior <= settings.slack * fresh.prior.min()))
        of_sketch = [
            int(np.flatnonzero(fine.sketches == sketch)[np.argmin(fine.prior[fine.sketches == sketch])])
            for sketch in np.unique(fine.sketches)
        ]
        spread = self._apart(fine, fine.prior, settings.first)
        first_of_sketches = sorted(of_sketch, key=lambda r: fine.prior[r])[: int(settings.first * settings.sketches)]
        rows = dict.fromkeys([spread[0], *first_of_sketches, *spread])
        first = [fine.candidate(row) for row in rows][: settings.first]
        doubted = [] if self._learner.ready else self._doubted(fine, first)
        return first[: settings.first - len(doubted)] + doubted

    def _doubted(self, pool: CandidatePool, first: Sequence[Candidate]) -> list[Candidate]:
        """Returns what tells whether the prior is right about the options that none of the first trials has."""
        settings, most = self._effort.draft, self._effort.rounds.options
        sketch, ranked = first[0].sketch, np.argsort(pool.prior, kind="stable")
        best = ranked[pool.sketches[ranked] == sketch][: settings.parents]
        parents = population(sketch, (pool.candidate(int(row)) for row in best), len(first[0].choices))
        options = missing(self._space.config_spaces[sketch], (c.choices for c in first if c.sketch == sketch), most, 1)
        members = mixed(self._space, self._rng, parents, options, settings.variants, most)
        price = self._effort.rounds.hopeless * float(pool.prior.min())
        rows = telling(members, prior_of(self._space, members), options, price, settings.close)
        return [members.candidate(row) for row in rows[: settings.doubted]]

    def _next(self, pool: CandidatePool) -> list[Candidate]:
        settings = self._effort.rounds
        known, ranked = len(self._history.results), self._history.leaders(settings.parents)
        self._best_by_round.append(ranked[0][1].seconds if ranked else np.inf)
        leaders = [c for c, m in ranked if m.seconds <= settings.fit * ranked[0][1].seconds]
        share = settings.stalled if self._stalled() else settings.near
        if not self._effort.parts.descent:
            share = 0.0
        batch = settings.young if known < settings.grown else max(settings.batch, known // settings.growth)
        explored = int(self._rng.binomial(batch, settings.explore))

        plan = self._untried(leaders)
        near = self._around(leaders[: settings.leaders])
        plan += self._choose(near, int(share * batch), apart=False)
        wide = joined([self._fresh(pool), *self._children(leaders)])
        plan = list(dict.fromkeys(plan + self._choose(wide, batch - explored - len(plan), apart=True)))
        fresh = self._fresh(pool)
        hopeful = fresh.rows(np.flatnonzero(fresh.prior <= settings.hopeless * fresh.prior.min(initial=np.inf)))
        return plan + self._explore(hopeful, explored)

    def _untried(self, leaders: Sequence[Candidate]) -> list[Candidate]:
        """Returns what tells the worth of options that hardly a trial of the leader's sketch had: no model knows that, and a
        single trial may have met a bad moment. What they come with has a price, so the cheapest by the model go first."""
        if not leaders:
            return []
        settings, sketch = self._effort.rounds, leaders[0].sketch
        tried = [c.choices for c in self._batches if c.sketch == sketch]  # or still in flight
        options = missing(self._space.config_spaces[sketch], tried, settings.options, settings.twice)
        parents = population(sketch, (c for c in leaders if c.sketch == sketch), len(leaders[0].choices))
        members = mixed(self._space, self._rng, parents, options, self._effort.draft.variants, settings.options)
        fresh = self._fresh(pool_of(self._space, [members]))
        if not len(fresh):
            return []
        score = self._learner.score(fresh)
        rows = telling(fresh.parts[0], np.exp(score), options, np.inf, self._effort.draft.close)
        return [fresh.candidate(row) for row in sorted(rows, key=lambda r: score[r])[: settings.untried]]

    def _stalled(self) -> bool:
        settings = self._effort.rounds
        recent = self._best_by_round[-1 - settings.patience :]
        return len(recent) > settings.patience and recent[-1] > (1.0 - settings.gain) * recent[0]

    def _choose(self, pool: CandidatePool, count: int, *, apart: bool) -> list[Candidate]:
        if not len(pool) or count < 1:
            return []
        score = self._learner.score(pool)
        best = [int(r) for r in np.argsort(score, kind="stable")[:count]]
        if apart:
            greedy = best[: max(int(count * self._effort.rounds.greed), 1)]
            best = list(dict.fromkeys([*greedy, *self._apart(pool, score, count)]))[:count]
        return [pool.candidate(row) for row in best]

    def _apart(self, pool: CandidatePool, score: Vector, count: int) -> list[int]:
        """Rows of the pool with low scores that differ from each other, the best first."""
        if not self._effort.parts.diversity:
            return [int(r) for r in np.argsort(score, kind="stable")[:count]]
        return spread_out(pool.features, self._scales, score, count, self._effort.spread)

    def _around(self, leaders: Sequence[Candidate]) -> CandidatePool:
        near = [
            near
            for c in leaders
            for near in (neighbours(self._space, c, self._effort.rounds.reach), swaps(self._space, c))
        ]
        return self._fresh(pool_of(self._space, near))

    def _children(self, leaders: Sequence[Candidate]) -> list[CandidatePool]:
        """Descendants of the leaders, each generation's parents being the model's choice among the last one."""
        settings = self._effort.rounds
        if not leaders:
            return []
        generations: list[CandidatePool] = []
        parents = [members for _, members in group(self._space, leaders)]
        for _ in range(settings.generations if len(self._history.results) >= settings.grown else 1):
            total = sum(len(p) for p in parents)
            brood = [self._brood(p, settings.children * len(p) // total) for p in parents]
            scored = self._fresh(pool_of(self._space, [b for b in brood if len(b)]))
            generations.append(scored)
            if not len(scored):
                break
            best = np.argsort(self._learner.score(scored), kind="stable")[: settings.parents]
            parents = [p for p in scored.rows(best).parts if len(p)]
        return generations

    def _brood(self, parents: Population, count: int) -> Population:
        mothers = take(parents, self._rng.integers(len(parents), size=count))
        fathers = take(parents, self._rng.integers(len(parents), size=count))
        half = np.arange(count // 2)
        crossed = crossover(self._rng, take(mothers, half), take(fathers, half))
        both = concatenate([crossed, take(mothers, np.arange(count // 2, count))])
        brood = mutate(self._space, self._rng, both, self._effort.rounds.genes)
        brood = unique(self._space, brood)
        return take(brood, self._space.valid(brood))

    def _explore(self, pool: CandidatePool, count: int) -> list[Candidate]:
        """Sketches with equal chances, then any candidate of the sketch's draft."""
        if not len(pool):
            return []
        sketches = pool.sketches
        chosen = [
            self._rng.choice(np.flatnonzero(sketches == self._rng.choice(np.unique(sketches)))) for _ in range(count)
        ]
        return [pool.candidate(int(row)) for row in chosen]

    def _fresh(self, pool: CandidatePool) -> CandidatePool:
        """Leaves out what was proposed already."""
        new = [self._history.seen.missing(part) for part in pool.parts]
        return pool.rows(np.flatnonzero(np.concatenate(new))) if new else pool
