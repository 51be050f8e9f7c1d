"""What the analysis says about a loop tree, and what running it shows."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
from numpy.typing import NDArray

from helpers.lowering.interpreter import Interpreter
from tilesmith.codegen.ir.loop_ir import Buffer, LoopProgram, Scope
from tilesmith.codegen.ir.verify import verify
from tilesmith.codegen.lower.lower import lower
from tilesmith.codegen.passes.run import Pass
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules import regions
from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.sketch import Sketch, valid
from tilesmith.schedules.space import ConfigSpace, ConfigValue, config
from tilesmith.schedules.useful import useful
from tilesmith.targets.target import Target
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program, Stage

Facts = dict[tuple[str, str], int]


def analysed(tree: LoopTree) -> dict[tuple[str, str], object]:
    """Trips of each loop, points of each stage with loops, bytes of each intermediate: numbers or arrays."""
    found: dict[tuple[str, str], object] = {}
    for stage in tree.stages:
        for loop, trips in regions.trips(tree, stage).items():
            found["trips", loop] = trips
        if stage.loops:
            found["points", stage.stage] = regions.points(tree, stage)
        for number, tensor in enumerate(tree.definition(stage.stage).tensors):
            if tensor.name not in tree.program.outputs:
                found["bytes", tensor.name] = regions.storage_bytes(tree, stage, number)
    return found


def counted(tree: LoopTree, run: Interpreter) -> Facts:
    """The same facts, as an interpreter has seen them."""
    found: Facts = {}
    for stage in tree.stages:
        for loop in stage.loops:
            found["trips", loop.name] = run.trips[loop.name]
        if stage.loops:
            found["points", stage.stage] = _points(tree.definition(stage.stage), stage.loops[-1].name, run)
        for tensor in tree.definition(stage.stage).tensors:
            if tensor.name not in tree.program.outputs:
                found["bytes", tensor.name] = run.allocated[tensor.name].bytes
    return found


def _points(definition: Stage, innermost: str, run: Interpreter) -> int:
    """Stores inside of the innermost loop, to one tensor that has all axes, or to its registers."""
    whole = next(t.name for n, t in enumerate(definition.tensors) if len(definition.axes_of(n)) == len(definition.axes))
    return sum(
        count
        for (loop, buffer), count in run.stores.items()
        if loop == innermost and (buffer == whole or buffer.startswith((f"{whole}_acc", f"{whole}_state")))
    )


def run_lowered(
    program: Program, lowered: LoopProgram, inputs: list[np.ndarray]
) -> tuple[Interpreter, list[np.ndarray]]:
    """(the interpreter after its run, the outputs)."""
    by_name = {d.tensor.name: array for d, array in zip(program.inputs, inputs, strict=True)}
    # a rewrite may see the same memory with other dimensions
    given = [by_name[b.name].reshape(b.shape) for b in lowered.arguments if b.name in by_name]
    outputs = [
        np.full(b.shape, np.nan if b.dtype.is_float else 99).astype(b.dtype.numpy)
        for b in lowered.arguments
        if b.name not in by_name
    ]
    interpreter = Interpreter(lowered)
    interpreter.run([*given, *outputs])
    return interpreter, outputs


def exact_inputs(program: Program, seed: int) -> list[np.ndarray]:
    """Small whole numbers for each input, so that sums come out the same in any order."""
    generator = np.random.default_rng(seed)
    made = []
    for declared in program.inputs:
        tensor = declared.tensor
        low = 0 if tensor.dtype.name in ("u8", "bool") else -3
        high = 2 if tensor.dtype.name == "bool" else 4
        made.append(generator.integers(low, high, tensor.shape).astype(tensor.dtype.numpy))
    return made


def changes_no_result(one: Pass, program: Program, loops: LoopProgram, seed: int) -> bool:
    """Asserts that results of a pass stay, bit for bit, and loop IR keeps its promises; whether it changed something."""
    inputs, changed = exact_inputs(program, seed), one(loops)
    verify(changed)
    results = [run_lowered(program, each, inputs)[1] for each in (loops, changed)]
    for before, after in zip(*results, strict=True):
        assert before.tobytes() == after.tobytes()
    return changed != loops


def assert_correct(program: Program, tree: LoopTree, target: Target, inputs: list[np.ndarray]) -> Interpreter:
    """Lowers and runs a tree, compares with the oracle, and gives the interpreter with its counts."""
    run, outputs = run_lowered(program, loop_ir(tree, target), inputs)
    magnitudes = evaluate(program, inputs, absolute=True)
    for name, output, wanted, scale in zip(
        program.outputs, outputs, evaluate(program, inputs), magnitudes, strict=True
    ):
        tolerance = 16 * program.tensors[name].dtype.eps * scale + 1e-30
        found = output.reshape(wanted.shape)
        with np.errstate(invalid="ignore"):  # infinities are compared as they are
            near = (found == wanted) | (np.abs(found - wanted) <= tolerance)
        assert np.all(near), (name, output, wanted)
    return run


def as_lowered(
    run: Interpreter, program: Program, tree: LoopTree, target: Target, inputs: list[np.ndarray]
) -> Interpreter:
    """What analysis tells of: the run of a tree as it was lowered. A later pass may run ends as whole tiles; where none has
    changed anything, the run is the one that was seen."""
    lowered = run.program if target.has_masks else lower(tree, target)
    return run if lowered == run.program else run_lowered(program, lowered, inputs)[0]


def draw_choices(config_space: ConfigSpace, random: Random, count: int) -> NDArray[np.int32]:
    """Positions of values, int32[count, parameters]; small numbers more often, because most large ones are not valid."""
    rows = [
        [min(random.randrange(len(p.values)), random.randrange(len(p.values))) for p in config_space.parameters]
        for _ in range(count)
    ]
    return np.array(rows, dtype=np.int32).reshape(count, len(config_space.parameters))


def check_case(
    program: Program, sketch: Sketch, target: Target, random: Random, largest: int = 3000, exact: bool = True
) -> bool:
    """Analyses a population, runs one valid config of it, and compares. False if no config is valid and small enough.

    `exact`: the numbers of trips, points and bytes too, not only the results.
    """
    count = 32
    config_space = sketch.config_space(program, target)
    choices = draw_choices(config_space, random, count)
    batched = sketch.apply_population(program, target, config_space, choices)
    facts = {key: np.broadcast_to(np.asarray(value), (count,)) for key, value in analysed(batched).items()}
    points = sum(value for (kind, _), value in facts.items() if kind == "points")
    good = np.flatnonzero(valid(batched, count) & (points <= largest))
    for row in good[:3]:
        alone = sketch.apply(program, target, config(config_space, choices[row]))
        assert analysed(alone) == {key: value[row] for key, value in facts.items()}
    if not len(good):
        return False
    expected = {key: int(value[good[0]]) for key, value in facts.items()} if exact else {}
    _check_row(program, sketch, target, config(config_space, choices[good[0]]), expected)
    return True


def _is_rounded_up(buffer: Buffer) -> bool:
    """Whether its overhang has room to spare, where nests of other tiles expect it too (codegen/lower/storage.py)."""
    return buffer.scope is Scope.WORKSPACE


def _check_row(
    program: Program, sketch: Sketch, target: Target, chosen: Mapping[str, ConfigValue], facts: Facts
) -> None:
    tree = sketch.apply(program, target, chosen)
    inputs = exact_inputs(program, 1)
    run = as_lowered(assert_correct(program, tree, target, inputs), program, tree, target, inputs)
    found = counted(tree, run)
    at_most = bool(useful(tree.program))  # loops that leave out what is of no use run less than is counted
    wrong = {
        key: (found[key], facts[key])
        for key in facts
        if found[key] != facts[key]
        and not (at_most and key[0] != "bytes" and found[key] < facts[key])
        and not (key[0] == "bytes" and found[key] > facts[key] and _is_rounded_up(run.allocated[key[1]]))
    }
    assert not wrong, wrong
