"""Searches on recorded spaces: ours, Optuna's TPE and Kernel Tuner's strategies, all answered from the same tables.

A curve is the best so far over the optimum after 8, 16, 24, ... evaluations. A configuration that failed when it was recorded
counts as an evaluation. Peers are treated kindly: a suggestion outside of the restrictions, or one made before, costs them
nothing.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from searching.store import Store
from tilesmith.measure.replay import ReplaySpace
from tilesmith.tuner.search.strategy import STRATEGIES, make_strategy

BATCH = 8
EVALUATIONS = 200
MARKS = (25, 50, 100, 200)
BARS = {50: 1.15, 100: 1.06, 200: 1.025}
WITHIN, WITHIN_BAR = 1.05, 0.85
PATIENCE = 2000  # suggestions in a row that cost nothing, after which a peer has nothing new

Curve = list[float]
Search = Callable[[ReplaySpace, int], Curve]


def ours(name: str) -> Search:
    """One of our strategies, in batches."""

    def run(space: ReplaySpace, seed: int) -> Curve:
        strategy = make_strategy(name, space, seed)
        seconds: list[float] = []
        while len(seconds) < EVALUATIONS:
            asked = strategy.ask(BATCH)
            rows = space.table.rows(np.array([c.choices for c in asked], dtype=np.int32))
            results = [(c, space.table.measurement(int(row))) for c, row in zip(asked, rows, strict=True)]
            strategy.tell(results)
            seconds += [m.seconds for _, m in results]
        return curve_of(seconds, space)

    return run


def optuna_tpe(space: ReplaySpace, seed: int) -> Curve:
    """Optuna's TPE on categorical parameters, in batches; what fails is told as ten times the slowest."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    table = space.table
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True))
    worst = 10 * float(np.nanmax(table.seconds))
    known: dict[int, float] = {}
    seconds: list[float] = []
    free = 0
    while len(seconds) < EVALUATIONS and free < PATIENCE:
        asked = []
        while len(asked) < min(BATCH, EVALUATIONS - len(seconds)) and free < PATIENCE:
            trial = study.ask()
            choices = [trial.suggest_categorical(p.name, range(len(p.values))) for p in table.parameters]
            row = int(table.rows(np.array([choices], dtype=np.int32))[0])
            if row < 0 or row in known or row in [r for _, r in asked]:
                study.tell(trial, known.get(row, worst))
                free += 1
                continue
            free = 0
            asked.append((trial, row))
        for trial, row in asked:
            measured = table.measurement(row).seconds
            known[row] = measured if measured < float("inf") else worst
            study.tell(trial, known[row])
            seconds.append(measured)
    return curve_of(seconds, space)


def kernel_tuner(strategy: str) -> Search:
    """A strategy of Kernel Tuner in its simulation mode, one evaluation at a time."""

    def run(space: ReplaySpace, seed: int) -> Curve:
        import kernel_tuner as kt

        table = space.table
        tunables = {p.name: list(p.values) for p in table.parameters}
        names = list(tunables)
        allowed = {tuple(p.values[c] for p, c in zip(table.parameters, row, strict=True)) for row in table.choices}
        order: list[float] = []

        def is_allowed(config: dict[str, Any]) -> bool:
            return tuple(config[name] for name in names) in allowed

        def objective_seconds(result: dict[str, Any]) -> float:
            return float(result["time"]) if isinstance(result["time"], int | float) else float("inf")

        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache.json"
            cache.write_text(json.dumps(_cache(space, names)))
            random.seed(seed)
            np.random.seed(seed)
            results, _ = kt.tune_kernel(
                "k", "__global__ void k() {}", 1, [], tunables,
                restrictions=is_allowed,
                strategy=strategy, strategy_options={"max_fevals": EVALUATIONS}, simulation_mode=True, cache=str(cache),
                quiet=True, verbose=False,
            )  # fmt: skip
            order += [objective_seconds(result) * 1e-3 for result in results]
        return curve_of(order, space)

    return run


def _cache(space: ReplaySpace, names: Sequence[str]) -> dict[str, Any]:
    """The space as Kernel Tuner keeps what it measured."""
    table, cache = space.table, {}
    for row, choices in enumerate(table.choices):
        config = {p.name: p.values[c] for p, c in zip(table.parameters, choices, strict=True)}
        ok = np.isfinite(table.seconds[row])
        time = float(table.seconds[row]) * 1e3 if ok else "RuntimeFailedConfig"
        spent = {
            "compile_time": 0,
            "verification_time": 0,
            "benchmark_time": 0,
            "strategy_time": 0,
            "framework_time": 0,
        }
        entry = {**config, "time": time, "times": [time] * 3, **spent, "timestamp": "2024-01-01 00:00:00+00:00"}
        cache[",".join(str(config[name]) for name in names)] = entry
    return {
        "device_name": table.device, "kernel_name": "k", "problem_size": 1, "tune_params_keys": list(names),
        "tune_params": {p.name: list(p.values) for p in table.parameters}, "objective": "time", "cache": cache,
    }  # fmt: skip


def curve_of(seconds: Sequence[float], space: ReplaySpace) -> Curve:
    """Best so far over the optimum after 8, 16, ..., and after 25, 50, 100 (see `at`); a search that ended early stays."""
    padded = np.full(EVALUATIONS, np.inf)
    padded[: min(len(seconds), EVALUATIONS)] = seconds[:EVALUATIONS]
    best = np.minimum.accumulate(padded) / space.table.best
    return [round(float(b), 5) for b in best]


SEARCHES: dict[str, Search] = {
    **{name: ours(name) for name in STRATEGIES if name != "surrogate"},  # without a prior guided is the surrogate
    "Optuna TPE": optuna_tpe,
    "Kernel Tuner genetic_algorithm": kernel_tuner("genetic_algorithm"),
    "Kernel Tuner simulated_annealing": kernel_tuner("simulated_annealing"),
    "Kernel Tuner adaptive_tabu_greywolf": kernel_tuner("adaptive_tabu_greywolf"),
}


def measure(store: Store, spaces: Sequence[Path], names: Sequence[str], seeds: int, say: Callable[[str], None]) -> None:
    """Runs what is missing, seeds before spaces, so that a table can be made at any time."""
    loaded: dict[Path, ReplaySpace] = {}
    for seed in range(seeds):
        for path in spaces:
            for name in names:
                key = f"{name}|{path.name.removesuffix('.json.gz')}|{seed}"
                peer = name not in STRATEGIES
                if store.get("replay", key, peer=peer) is None:
                    space = loaded.setdefault(path, ReplaySpace(path))
                    store.put("replay", key, _thinned(SEARCHES[name](space, seed)), peer=peer)
                    say(key)


def _thinned(curve: Curve) -> Curve:
    """Every eighth evaluation, and the marks: what tables and plots show."""
    return [curve[n - 1] for n in points()]


def points() -> list[int]:
    """Evaluations at which a stored curve has an entry."""
    return sorted({*range(BATCH, EVALUATIONS + 1, BATCH), *MARKS})


def curves(store: Store, name: str) -> dict[str, list[Curve]]:
    """Space -> the curves of all seeds of one strategy."""
    found: dict[str, list[Curve]] = {}
    for key, curve in store.all("replay"):
        strategy, space, _ = key.split("|")
        if strategy == name:
            found.setdefault(space, []).append(curve)
    return found


def geomean_at(found: dict[str, list[Curve]], mark: int) -> float:
    """Geomean over the spaces of the mean over the seeds of best / optimum."""
    place = points().index(mark)
    return exp(fmean(log(fmean(curve[place] for curve in of_space)) for of_space in found.values()))


def within(found: dict[str, list[Curve]]) -> float:
    """The share of runs that end within 5% of the optimum."""
    return fmean(fmean(curve[-1] <= WITHIN for curve in of_space) for of_space in found.values())
