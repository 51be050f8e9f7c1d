"""Where a plan (schedules/plan/) and the code made for it differ, or the plans of a population and of its members."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilesmith.codegen.ir.loop_ir import Buffer, Let, LoopProgram, Nest, Store, statements
from tilesmith.codegen.lower.lower import allocated, lower
from tilesmith.codegen.lower.refusals_gpu import shared_bytes
from tilesmith.cost_model.gpu.places import shared_bytes as planned_bytes
from tilesmith.schedules.extents import Extent
from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.plan.stage import Plan, StagePlan
from tilesmith.schedules.plan.storage import Home, StoragePlan
from tilesmith.schedules.plan.threads import blocks_of, members, threads_of, width_of
from tilesmith.targets.target import Target


def disagreements(tree: LoopTree, plan: Plan, target: Target) -> list[str]:
    """What the code of a tree does otherwise than a plan says. ScheduleError: there is no code for it."""
    made = lower(tree, target)
    return [*_storage(plan, made), *_prepared(plan, made), *_loops(plan, made), *_launches(tree, plan, made, target)]


def _storage(plan: Plan, made: LoopProgram) -> Iterator[str]:
    """Scope and size of each tensor."""
    buffers = {b.name: b for b in made.arguments} | allocated(made)
    for stage in plan.stages.values():
        for storage in stage.storage:
            name, said = storage.tensor.name, (storage.scope, storage.bytes)
            found = buffers.get(name)
            if found is None or (found.scope, found.bytes) != said:
                yield f"{name} is {found and (found.scope, found.bytes)}, planned as {said}"


def _prepared(plan: Plan, made: LoopProgram) -> Iterator[str]:
    """What is computed ahead."""
    found = {nest.name for nest in made.prepare if not nest.name.startswith("keep_")}
    said = {name for name, stage in plan.stages.items() if stage.prepared and stage.stage.at is None}
    if found != said:
        yield f"{sorted(found)} are prepared, planned are {sorted(said)}"
    if {nest.name for nest in made.nests} & said:
        yield "what is prepared runs at each call too"


def _loops(plan: Plan, made: LoopProgram) -> Iterator[str]:
    """Where values are held, what is never stored, which loops end early."""
    nests = (*made.prepare, *made.nests)
    names = [
        s.buffer.name for nest in nests for s in statements(nest.body) if isinstance(getattr(s, "buffer", None), Buffer)
    ]
    stores = {s.buffer for nest in nests for s in statements(nest.body) if isinstance(s, Store)}
    for stage in plan.stages.values():
        for number, storage in enumerate(stage.storage):
            name = storage.tensor.name
            if not stage.loops.stored[number] and name in stores:
                yield f"{name} is stored, and planned not to be"
            if stage.stage.tensorized is None and stage.loops.first_reduction is not None:
                yield from _held(stage, number, name, names)
    for nest in nests:
        yield from _ends(plan, nest)


def _held(stage: StagePlan, number: int, name: str, names: list[str]) -> Iterator[str]:
    kind = "acc" if stage.stage.stage == name and len(stage.storage) == 1 and not stage.loops.in_step else "state"
    found = any(other.startswith((f"{name}_acc_", f"{name}_state_")) for other in names)
    said = stage.loops.accumulate_at is not None and number not in stage.loops.in_step
    if found != said:
        yield f"{name}: {kind} in registers {found}, planned {said}"


def _ends(plan: Plan, nest: Nest) -> Iterator[str]:
    """Loops end early only where bounds say so."""
    axes = {
        loop.axis
        for stage in plan.stages.values()
        for loop, bounds in zip(stage.stage.loops, stage.loops.ends, strict=True)
        if bounds
    }
    for statement in statements(nest.body):
        if isinstance(statement, Let) and "_of_use_" in statement.var:
            axis = statement.var.partition("_of_use_")[0]
            if axis not in {a.replace(".", "_") for a in axes}:
                yield f"{nest.name}: a loop of {axis} ends early, and none is planned to"


def _launches(tree: LoopTree, plan: Plan, made: LoopProgram, target: Target) -> Iterator[str]:
    """Blocks, threads and shared memory of each launch."""
    if target.isa.gpu is None or not plan.gpu:
        return
    for nest in (*made.prepare, *made.nests):
        if nest.name not in plan.stages:
            continue
        root = plan.stages[nest.name].stage
        width = width_of(threads_of(tree, root, target.gpu), target.gpu)
        if (nest.blocks, nest.threads) != (blocks_of(root), width):
            yield f"{nest.name}: {nest.blocks} blocks of {nest.threads}, planned {blocks_of(root)} of {width}"
        said = sum(
            float(planned_bytes(tree, plan.stages[s.stage], width, target.gpu.warp)) for s in members(tree, root)
        )
        if shared_bytes(nest) != said:
            yield f"{nest.name}: {shared_bytes(nest)} bytes of shared memory, planned {said}"


# ---- populations


def differences(population: Plan, alone: Plan, row: int) -> list[str]:
    """Where the plan of a population says something else about one of its candidates than the plan of that one."""
    found = []
    for name, stage in alone.stages.items():
        several = population.stages[name]
        facts = {
            "prepared": (several.prepared, stage.prepared),
            "accumulate": (several.loops.accumulate_at, stage.loops.accumulate_at),
            "full": (several.loops.full, stage.loops.full),
            "tile": (several.loops.tile_at, stage.loops.tile_at),
            "stored": (several.loops.stored, stage.loops.stored),
            "straight": (_straight(several, row), _straight(stage, 0)),
            "storage": ([_at(s, row) for s in several.storage], [_at(s, 0) for s in stage.storage]),
        }
        found += [f"{name}: {fact}: {a}, alone {b}" for fact, (a, b) in facts.items() if a != b]
    return found


def _straight(stage: StagePlan, row: int) -> int:
    return next(one.depth for one in stage.straight if _of(one.when, row))


def _at(storage: StoragePlan, row: int) -> tuple[object, ...]:
    home = next(home for home in storage.homes if _of(home.when, row))
    shape = [_of(extent, row) for extent in storage.shape]
    return home.scope, _fragment(home, row), shape, _of(storage.slots, row)


def _fragment(home: Home, row: int) -> list[tuple[str, int, int]]:
    return [(axis, _of(stride, row), _of(extent, row)) for axis, stride, extent in home.fragment]


def _of(extent: Extent | bool, row: int) -> int:
    value = np.asarray(extent)
    return int(value[row]) if value.ndim else int(value)
