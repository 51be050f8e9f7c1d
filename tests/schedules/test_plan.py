"""The plan of a stage (schedules/plan/): code does what it says, populations have the plans of their candidates, and every
prediction is some time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from helpers.foreign_programs import foreign_program
from helpers.lowering.planned import differences, disagreements
from helpers.lowering.programs import MAKERS, random_program
from helpers.lowering.sketches import random_sketch
from helpers.lowering.truth import draw_choices
from tilesmith.common.errors import ScheduleError
from tilesmith.cost_model.analytic import CALL, predict
from tilesmith.cost_model.features import features
from tilesmith.cost_model.gpu.analytic import START
from tilesmith.cost_model.populations import told_apart
from tilesmith.cost_model.sketch_model import SketchModel
from tilesmith.schedules.loops import LoopTree, Scope
from tilesmith.schedules.plan.stage import Plan, StagePlan, plan_of
from tilesmith.schedules.plan.storage import Home
from tilesmith.schedules.plan.variants import questions
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch, valid
from tilesmith.schedules.space import config
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGETS = tuple(parse_target(text) for text in ("x86:avx512", "x86:sse2", "x86:avx512+amx", "cuda:sm_90a"))
DRAWS = 24

Case = tuple[LoopTree, Plan, Target]


def drawn(seed: int) -> Iterator[tuple[Task, Sketch, Random]]:
    """Sketches of a random program on a random target: one of the rules, and a random one."""
    random = Random(seed)
    target = random.choice(TARGETS)
    program: Program = foreign_program(seed) if seed % 2 else random_program(random, random.choice(sorted(MAKERS)))
    task = Task.of(program, target, random.randint(1, 2))
    yield task, random.choice(task.sketches), random
    if target.kind != "cuda":
        yield task, random_sketch(task.body, random), random


def cases(task: Task, sketch: Sketch, random: Random) -> Iterator[Case]:
    """Some configs, applied, with their plans. Fails where a population plans or predicts something else for one of them, or
    predicts no time for any."""
    gpu = task.target.kind == "cuda"
    config_space = sketch.config_space(task.body, task.target)
    choices = draw_choices(config_space, random, DRAWS)
    several = sketch.apply_population(task.body, task.target, config_space, choices)
    good = np.flatnonzero(valid(several, DRAWS))
    ceilings = default_ceilings(task.target, task.threads)
    seconds = predict(several, task.target, task.threads, ceilings, DRAWS)[good]
    about = task.target.text, str(task.body), sketch.text
    assert np.isfinite(seconds).all() and (seconds >= (START if gpu else CALL)).all(), (about, seconds)
    planned = plan_of(several, gpu)
    for row, expected in list(zip(good, seconds, strict=True))[:2]:
        one = sketch.apply_population(task.body, task.target, config_space, choices[row : row + 1])
        alone = predict(one, task.target, task.threads, ceilings, 1)
        assert alone == pytest.approx(expected, rel=1e-12), about
        tree = sketch.apply(task.body, task.target, config(config_space, choices[row]))
        plan = plan_of(tree, gpu)
        assert not differences(planned, plan, int(row)), about
        yield tree, plan, task.target


@cache  # faults are planted in the same ones
def of_seed(seed: int) -> tuple[tuple[str, Case], ...]:
    """All cases of a seed, each with what it is of."""
    return tuple(
        (f"{task.target.text}\n{task.body}\n{sketch.text}", case)
        for task, sketch, random in drawn(seed)
        for case in cases(task, sketch, random)
    )


def checked(seed: int) -> int:
    """How many candidates of a seed have code; all of it does what the plan says."""
    done = 0
    for about, (tree, plan, target) in of_seed(seed):
        try:
            wrong = disagreements(tree, plan, target)
        except ScheduleError:  # there is no code for it
            continue
        assert not wrong, (about, wrong)
        done += 1
    return done


def test_code_does_what_the_plan_says() -> None:
    assert sum(checked(seed) for seed in range(120)) > 200


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_code_of_many_programs_does_what_the_plan_says(part: int) -> None:
    assert sum(checked(1000 + 200 * part + seed) for seed in range(200)) > 300


# ---- planted faults: each changes what a plan says of a stage, and code has to disagree


def larger(stage: StagePlan) -> StagePlan:
    """Each tensor is twice as large."""
    grown = tuple(replace(s, shape=(*s.shape, 2)) if _is_whole(s.home) else s for s in stage.storage)
    return replace(stage, storage=grown)


def _is_whole(home: Home) -> bool:
    return home.scope is not Scope.OUTPUT and not home.fragment


def elsewhere(stage: StagePlan) -> StagePlan:
    """What is in registers is on the stack, and the other way round."""
    other = {Scope.REGISTER: Scope.STACK, Scope.STACK: Scope.REGISTER, Scope.WORKSPACE: Scope.PREPARED}
    moved = tuple(replace(s, homes=(replace(s.home, scope=other.get(s.scope, s.scope)),)) for s in stage.storage)
    return replace(stage, storage=moved)


def at_each_call(stage: StagePlan) -> StagePlan:
    return replace(stage, prepared=False)


def in_storage(stage: StagePlan) -> StagePlan:
    """Nothing accumulates in registers."""
    if stage.stage.tensorized is not None or len(stage.loops.in_step) == len(stage.storage):
        return stage
    return replace(stage, loops=replace(stage.loops, accumulate_at=None))


def unseen(stage: StagePlan) -> StagePlan:
    """Nothing is ever stored."""
    if stage.stage.tensorized is not None or stage.storage[0].scope is Scope.REGISTER:
        return stage
    return replace(stage, loops=replace(stage.loops, stored=(False,) * len(stage.storage)))


@pytest.mark.parametrize("fault", [larger, elsewhere, at_each_call, in_storage, unseen])
def test_a_plan_that_says_something_else_is_caught(fault: Callable[[StagePlan], StagePlan]) -> None:
    planted = 0
    for seed in range(200):
        for about, (tree, plan, target) in of_seed(seed):
            wrong = replace(plan, stages={name: fault(stage) for name, stage in plan.stages.items()})
            if all(wrong.stages[name] == stage for name, stage in plan.stages.items()):
                continue
            try:
                assert disagreements(tree, wrong, target), (fault, about)
            except ScheduleError:
                continue
            planted += 1
        if planted >= 10:
            return
    raise AssertionError(f"only {planted} plans could be changed")


# ---- populations whose candidates have different plans

ROWS = "input x: f32[64, 96]\nt0[i: 64, j: 96] = exp(x[i, j])\nt1[i: 64, j: 96] = t0[i, j] * t0[i, j]\nreturn t1"


def tiles(s: Schedule) -> None:
    """A tile of t0 inside of the loops of t1, each in vectors of its own width."""
    i, j = s.stage("t1").loops
    i0, i1 = s.split(i, s.choice("rows", [1, 4, 64], 1))
    j0, j1, j2 = s.split(j, 2, s.choice("lanes", [4, 8, 16], 8))
    s.reorder(i0, j0, i1, j1, j2)
    s.unroll(i1, j1)
    s.vectorize(j2)
    rows, columns = s.compute_at("t0", j0).loops
    c1, c2 = s.split(columns, s.choice("own", [4, 8, 16], 8))
    s.unroll(rows, c1)
    s.vectorize(c2)


def test_candidates_of_one_population_are_predicted_as_if_they_were_alone() -> None:
    """t0 is in registers where the lanes of both sides are alike and the tile is small, and in memory elsewhere."""
    target, ceilings = TARGETS[0], default_ceilings(TARGETS[0], 1)
    program = canonical(parse(ROWS))
    (sketch,) = trace(tiles, program)
    config_space = sketch.config_space(program, target)
    choices = np.array(list(np.ndindex(*(len(p.values) for p in config_space.parameters))), np.int32)
    tree = sketch.apply_population(program, target, config_space, choices)
    good = np.flatnonzero(valid(tree, len(choices)))
    plan = plan_of(tree, gpu=False)
    assert len(questions(plan, told_apart(gpu=False))) == 1
    together = predict(tree, target, 1, ceilings, len(choices))[good]
    rows = features(tree, target, 1, len(choices))[good]
    model = SketchModel(sketch.opened(program, target), config_space, target, 1, ceilings)
    assert model.seconds(choices) == pytest.approx(predict(tree, target, 1, ceilings, len(choices)), rel=1e-12)
    assert model.features(choices[good]) == pytest.approx(rows, rel=1e-6)
    scopes = set()
    for row, seconds in zip(good, together, strict=True):
        one = sketch.apply(program, target, config(config_space, choices[row]))
        alone = plan_of(one, gpu=False)
        assert not differences(plan, alone, int(row)) and not disagreements(one, alone, target)
        scopes.add(alone.storage("t0").scope)
        single = sketch.apply_population(program, target, config_space, choices[row : row + 1])
        assert predict(single, target, 1, ceilings, 1)[0] == pytest.approx(seconds, rel=1e-12)
    assert scopes == {Scope.REGISTER, Scope.STACK}


@pytest.mark.parametrize(("channels", "pitch"), [(256, 256 + 16), (128, 128 + 16), (96, 96), (100, 100)])
def test_rows_of_a_piece_do_not_begin_at_few_places_of_a_page(channels: int, pitch: int) -> None:
    """A line lies between rows that would: 4,096 bytes hold eight of 512 bytes."""
    program = parse(f"""input x: f32[9, 9, {channels}]
p[i: 9, j: 9, c: {channels}] = x[i, j, c] * 2
y[i: 4, j: 4, c: {channels}] = sum[r: 3, s: 3](p[i * 2 + r, j * 2 + s, c])
return y""")

    def at_rows(s: Schedule) -> None:
        s.compute_at("t0", s.stage("t1").loops[0])

    task = Task.of(program, parse_target("x86:avx2"), 1)
    (sketch,) = trace(at_rows, task.body)
    stages = plan_of(sketch.apply(task.body, task.target, {}), False).stages
    assert stages["t0"].storage[0].shape == (3, 9, pitch)
    assert stages["t1"].storage[0].shape == (4, 4, channels)


def test_parts_of_rows_lie_close_together() -> None:
    program = parse("""input x: f32[9, 9, 256]
p[i: 9, j: 9, c: 256] = x[i, j, c] * 2
y[i: 4, j: 4, c: 256] = sum[r: 3, s: 3](p[i * 2 + r, j * 2 + s, c])
return y""")

    def at_blocks(s: Schedule) -> None:
        i, j, c, *_ = s.stage("t1").loops
        outer, inner = s.split(c, 8)
        s.reorder(outer, i, j, inner)
        s.compute_at("t0", outer)

    task = Task.of(program, parse_target("x86:avx2"), 1)
    (sketch,) = trace(at_blocks, task.body)
    assert plan_of(sketch.apply(task.body, task.target, {}), False).stages["t0"].storage[0].shape == (9, 9, 8)
