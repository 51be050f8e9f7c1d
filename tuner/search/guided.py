"""The default search: draft by the prior, verify by a learned model, finish by coordinate descent.

    first batch     the best of a very large draft, spread out over different structures and shapes   (draft.py)
    later batches   the best by the learned model among the draft, children of the leaders, and all
                    neighbours of the leaders; different from each other; a few that the model would not choose
    no more gains   mostly neighbours of the leaders: coordinate descent                               (Droplet search)

A space without a prior is searched by `surrogate.py` instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ...cost_model.learned import LearnedModel, Samples
from ...schedules.space import Candidate, Population, Space
from ...schedules.space_ops import concatenate, crossover, group, mutate, neighbours, population, swaps, take, unique
from ..budget import NORMAL, Effort
from .draft import draft
from .pool import Pool, Vector, described, joined, pool_of, prior_of, scales, spread_out
from .random import shuffled
from .rounds import Round, judged
from .strategy import History, Result, Strategy
from .surrogate import Surrogate


def has_prior(space: Space) -> bool:
    """Whether the space can tell anything without measurements."""
    arm = space.arms[0]
    return space.prior(population(0, [Candidate(0, arm.default)], len(arm.parameters))) is not None


OPTIONS = 5  # values of a parameter that is a choice more than a number
UNTRIED = 2  # trials of a batch that are spent on options that nobody has tried


class Guided:
    """See the top of this file. Whatever it is told, also of earlier runs, trains the model.

    `known`: trials of other tasks, described as `pool.described` does for this space; none of them is task 0.
    `rounds`: what the model said of each batch, against what was measured; grows as the search goes on.
    """

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL, known: Sequence[Samples] = ()) -> None:
        guided = PriorGuided(space, seed, effort, known) if has_prior(space) else None
        self._inner: Strategy = guided or Surrogate(space, seed, effort)
        self.rounds: list[Round] = guided.rounds if guided else []

    def ask(self, count: int) -> list[Candidate]:
        """The next candidates of the plan."""
        return self._inner.ask(count)

    def tell(self, results: Sequence[Result]) -> None:
        """Trains on the results at the next plan."""
        self._inner.tell(results)


class PriorGuided:
    """Plans `effort.rounds.batch` trials at a time; a new plan when they are all asked for."""

    def __init__(self, space: Space, seed: int, effort: Effort, known: Sequence[Samples] = ()) -> None:
        self._space = space
        self._effort = effort
        self._rng = np.random.default_rng(seed)
        self._history = History(space)
        self._stream = shuffled(space, self._rng, self._history.seen)
        self._model = LearnedModel(members=effort.members, limit=effort.rows, seed=seed)
        self._plan: Iterator[Candidate] = iter(())
        self._round = 0
        self._rounds: dict[Candidate, int] = {}
        self._draft: Pool | None = None
        self._scales: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
        self._known = list(known)
        self._samples: list[Samples] = []
        self.rounds: list[Round] = []
        self._best_by_round: list[float] = []

    def tell(self, results: Sequence[Result]) -> None:
        """Keeps the results for the next plan."""
        self._history.tell(results)

    def _learn(self) -> None:
        """Fits the model to all results; the features of the new ones are made together: small portions cost most."""
        start, before = perf_counter(), len(self._samples)
        new = self._history.results[sum(len(s) for s in self._samples) :]
        for rows, members in group(self._space, [c for c, _ in new]):
            ended = [new[int(r)] for r in rows]
            seconds = np.array([m.seconds for _, m in ended], dtype=np.float64)
            batch = np.array([self._rounds.get(c, 0) for c, _ in ended], dtype=np.int64)
            features, prior = described(self._space, members), prior_of(self._space, members)
            self._samples.append(Samples(features, prior, seconds, batch, np.zeros(len(rows), dtype=np.int64)))
        judged_batch = self._judge(self._samples[before:])
        self._model.fit(Samples.joined([*self._known, *self._samples]))
        if judged_batch is not None:
            self.rounds.append(replace(judged_batch, seconds=perf_counter() - start))

    def _judge(self, fresh: list[Samples]) -> Round | None:
        """What the model, which has not seen the new results, says of them."""
        if not fresh or not self._model.ready:
            return None
        batch, foreign = Samples.joined(fresh), sum(len(s) for s in self._known)
        known = foreign + sum(len(s) for s in self._samples) - len(batch)
        predicted = self._model.predict(batch.features, batch.prior).seconds
        return judged(len(self.rounds), known, foreign, predicted, batch.seconds, 0.0)

    def ask(self, count: int) -> list[Candidate]:
        """From the plan; from the random stream when there is nothing left to plan with."""
        out = self._history.propose(self._plan, count)
        while len(out) < count:
            plan = self._make_plan()
            self._rounds |= dict.fromkeys(plan, self._round)
            self._plan = iter(plan)
            more = self._history.propose(self._plan, count - len(out))
            if not more:
                return out + self._history.propose(self._stream, count - len(out))
            out += more
        return out

    def _make_plan(self) -> list[Candidate]:
        """The next batch, the most promising first."""
        self._round += 1
        if self._draft is None:
            self._draft = draft(self._space, self._rng, self._effort.draft)
            self._scales = scales(self._draft.features)
        if len(self._history.results) < self._effort.draft.first // 2:
            if self._known and not self._model.ready:
                self._model.fit(Samples.joined(self._known))
            return self._first(self._draft)
        self._learn()
        return self._next(self._draft)

    def _first(self, pool: Pool) -> list[Candidate]:
        """The best of the draft, spread out; each arm that the prior does not rule out is among them."""
        settings = self._effort.draft
        fresh = self._fresh(pool)
        if not len(fresh):
            return []
        if self._model.ready:  # trained on other tasks
            fresh = replace(fresh, prior=np.exp(self._score(fresh)))
        fine = fresh.rows(np.flatnonzero(fresh.prior <= settings.slack * fresh.prior.min()))
        of_arm = [
            int(np.flatnonzero(fine.arms == arm)[np.argmin(fine.prior[fine.arms == arm])])
            for arm in np.unique(fine.arms)
        ]
        spread = spread_out(fine.features, self._scales, fine.prior, settings.first)
        rows = dict.fromkeys([spread[0], *sorted(of_arm, key=lambda r: fine.prior[r])[: settings.first // 4], *spread])
        return [fine.candidate(row) for row in rows][: settings.first]

    def _next(self, pool: Pool) -> list[Candidate]:
        settings = self._effort.rounds
        leaders = [candidate for candidate, _ in self._history.leaders(settings.parents)]
        self._best_by_round.append(self._history.leaders(1)[0][1].seconds if leaders else np.inf)
        share = 0.75 if self._stalled() else settings.near
        batch = max(settings.batch, len(self._history.results) // settings.growth)
        explored = int(self._rng.binomial(batch, settings.explore))

        near = self._around(leaders[: settings.leaders])
        plan = self._choose(near, int(share * batch), apart=False)
        wide = joined([self._fresh(pool), *self._children(leaders)])
        plan += self._choose(wide, batch - explored, apart=True)
        plan = list(dict.fromkeys([*self._untried(leaders), *plan]))[: batch - explored]
        return plan + self._explore(self._fresh(pool), explored)

    def _untried(self, leaders: Sequence[Candidate]) -> list[Candidate]:
        """The best candidate with options that no trial of its arm had: no model knows what those are worth."""
        if not leaders:
            return []
        arm, choices = leaders[0].arm, leaders[0].choices
        tried = [c.choices for c, _ in self._history.results if c.arm == arm]
        turned = [
            Candidate(arm, (*choices[:place], option, *choices[place + 1 :]))
            for place, parameter in enumerate(self._space.arms[arm].parameters)
            if len(parameter.values) <= OPTIONS
            for option in sorted(set(range(len(parameter.values))) - {one[place] for one in tried})
        ]
        valid = self._space.valid(population(arm, turned, len(choices)))
        return [candidate for candidate, good in zip(turned, valid, strict=True) if good][:UNTRIED]

    def _stalled(self) -> bool:
        recent = self._best_by_round[-1 - self._effort.rounds.patience :]
        return len(recent) > self._effort.rounds.patience and recent[-1] > 0.995 * recent[0]

    def _score(self, pool: Pool) -> Vector:
        """log(seconds) that a candidate might reach; what probably fails is put back."""
        predicted = self._model.predict(pool.features, pool.prior)
        hope = np.log(predicted.seconds) - self._effort.rounds.hope * predicted.spread
        return np.asarray(hope - np.log(np.maximum(predicted.success, 1e-3)))

    def _choose(self, pool: Pool, count: int, *, apart: bool) -> list[Candidate]:
        if not len(pool) or count < 1:
            return []
        score = self._score(pool)
        if apart:
            rows = spread_out(pool.features, self._scales, score, count)
            best = np.argsort(score, kind="stable")[: max(count // 3, 1)]
            rows = list(dict.fromkeys([*(int(r) for r in best), *rows]))[:count]
        else:
            rows = [int(r) for r in np.argsort(score, kind="stable")[:count]]
        return [pool.candidate(row) for row in rows]

    def _around(self, leaders: Sequence[Candidate]) -> Pool:
        near = [near for c in leaders for near in (neighbours(self._space, c, reach=2), swaps(self._space, c))]
        return self._fresh(pool_of(self._space, near))

    def _children(self, leaders: Sequence[Candidate]) -> list[Pool]:
        """Descendants of the leaders, each generation's parents being the model's choice among the last one."""
        settings = self._effort.rounds
        if not leaders:
            return []
        generations: list[Pool] = []
        parents = [members for _, members in group(self._space, leaders)]
        for _ in range(settings.generations):
            total = sum(len(p) for p in parents)
            brood = [self._brood(p, settings.children * len(p) // total) for p in parents]
            scored = self._fresh(pool_of(self._space, [b for b in brood if len(b)]))
            generations.append(scored)
            if not len(scored):
                break
            best = np.argsort(self._score(scored), kind="stable")[: settings.parents]
            parents = [p for p in scored.rows(best).parts if len(p)]
        return generations

    def _brood(self, parents: Population, count: int) -> Population:
        mothers = take(parents, self._rng.integers(len(parents), size=count))
        fathers = take(parents, self._rng.integers(len(parents), size=count))
        half = np.arange(count // 2)
        crossed = crossover(self._rng, take(mothers, half), take(fathers, half))
        brood = mutate(self._space, self._rng, concatenate([crossed, take(mothers, np.arange(count // 2, count))]))
        brood = unique(self._space, brood)
        return take(brood, self._space.valid(brood))

    def _explore(self, pool: Pool, count: int) -> list[Candidate]:
        """Arms with equal chances, then any candidate of the arm's draft."""
        if not len(pool):
            return []
        arms = pool.arms
        chosen = [self._rng.choice(np.flatnonzero(arms == self._rng.choice(np.unique(arms)))) for _ in range(count)]
        return [pool.candidate(int(row)) for row in chosen]

    def _fresh(self, pool: Pool) -> Pool:
        """Without what was proposed already."""
        new = [self._history.seen.missing(part) for part in pool.parts]
        return pool.rows(np.flatnonzero(np.concatenate(new))) if new else pool
