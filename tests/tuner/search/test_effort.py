"""The presets are the single place of the search's numbers, and each of their parts can be taken away."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from contracts.spaces import ToySpace
from contracts.strategy import drive
from tilesmith.common.errors import ArgumentError
from tilesmith.cost_model.features import FEATURE_NAMES
from tilesmith.schedules.space_ops import sample
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tuner.effort import ABLATIONS, EFFORTS, NORMAL, Effort, SearchParts, ablated, effort_named
from tilesmith.tuner.search.guided import Guided
from tilesmith.tuner.task_space import TaskSpace

ROOT = Path(__file__).parents[3]
SEARCH = sorted((ROOT / "tuner" / "search").glob("*.py"))
LEARNING = [ROOT / "cost_model" / "learned" / f"{name}.py" for name in ("model", "boosting", "smooth")]
TUNER = [ROOT / "tuner" / f"{name}.py" for name in ("budget", "scheduler", "session", "transfer", "tune")]


@pytest.mark.parametrize("path", [*SEARCH, *TUNER, *LEARNING], ids=lambda p: p.stem)
def test_no_other_module_holds_a_default_number(path: Path) -> None:
    """Neither as a constant of the module nor as the default of a field or a parameter."""
    module = ast.parse(path.read_text())
    declared = [n.value for n in module.body if isinstance(n, ast.Assign | ast.AnnAssign)]
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            named = zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)
            declared += [value for argument, value in named if argument.arg != "seed"]
    held = [ast.unparse(n) for n in declared if isinstance(n, ast.Constant) and type(n.value) in (int, float)]
    assert not held


def test_presets_differ_in_thoroughness_alone(whole_drafts: None) -> None:
    quick, normal, full = (EFFORTS[name] for name in ("quick", "normal", "full"))
    assert quick.trials < normal.trials < full.trials
    assert 100_000 <= quick.draft.population <= normal.draft.population < full.draft.population
    assert quick.draft.generations < normal.draft.generations < full.draft.generations
    assert quick.parts == normal.parts == full.parts == SearchParts()


def test_an_effort_is_given_by_name_or_as_it_is(whole_drafts: None) -> None:
    own = replace(NORMAL, name="mine", trials=7)
    assert effort_named("normal") is NORMAL and effort_named(own) is own
    with pytest.raises(ArgumentError, match="unknown effort"):
        effort_named("heroic")


@cache
def asked(effort: Effort, trials: int = 64) -> list[float]:
    space = ToySpace()
    return [space.measure(c).seconds for c in drive(Guided(space, 0, effort), space, trials)]


@pytest.mark.parametrize("name", sorted(set(ABLATIONS) - {"divisors only"}))
def test_an_ablation_searches_another_way(name: str) -> None:
    """The toy space knows no loops, so that those cannot be made to come out even."""
    effort = ablated(NORMAL, name)
    assert name in effort.name
    assert asked(effort) != asked(NORMAL)


def test_without_a_draft_the_first_trials_are_no_better_than_chance() -> None:
    drafted, drawn = (np.median(asked(effort, 16)) for effort in (NORMAL, ablated(NORMAL, "without draft")))
    assert drafted < 0.7 * drawn


def test_a_blind_start_asks_no_model_for_so_many_trials() -> None:
    space = ToySpace()
    search = Guided(space, 0, replace(NORMAL, parts=SearchParts(blind=40)))
    drive(search, space, 40)
    assert not search.rounds
    drive(search, space, 16)
    assert search.rounds


def test_divisors_only_leaves_nothing_over_an_edge() -> None:
    """Features tell how many points are worked on beyond those that there are."""
    target = parse_target("x86:avx512")
    task = Task.of(ops.matmul(96, 160, 100), target, 1)
    ragged, even = (TaskSpace(task, default_ceilings(target, 1), ragged=flag) for flag in (True, False))
    sketch = max(range(len(ragged.config_spaces)), key=lambda a: ragged.config_spaces[a].size)
    drawn = sample(ragged, np.random.default_rng(0), sketch, 2000)
    kept = even.valid(drawn)
    assert 0 < kept.sum() < 0.5 * len(kept)
    waste = np.abs(ragged.features(drawn)[:, FEATURE_NAMES.index("points_waste")])
    assert (waste[kept] == 0).all() and (waste[~kept] > 0).any()


def test_divisors_only_leaves_something_of_every_structure() -> None:
    """11 columns are prime: there is no tile of 16 or of 8 that divides them, and all other axes still come out even."""
    target = parse_target("x86:avx512;cores=1")
    task = Task.of(ops.conv2d(1, 16, 11, 11, 32, kernel=3, padding=1), target, 1)
    ragged, even = (TaskSpace(task, default_ceilings(target, 1), ragged=flag) for flag in (True, False))
    for sketch in range(0, len(ragged.config_spaces), 5):
        drawn = sample(ragged, np.random.default_rng(0), sketch, 300)
        kept = sample(even, np.random.default_rng(0), sketch, 20)
        assert len(kept) and ragged.valid(kept).all()
        assert not len(ragged.config_spaces[sketch].parameters) or even.valid(drawn).sum() < len(drawn)
