"""Programs cut into kernels, one for each stage, and joined again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.codegen.rows import ArgumentRows
from tilesmith.graph.executor.compose import compose
from tilesmith.graph.partition.partition import partition
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Input, Program, Stage
from tilesmith.tensor.stage_edits import needed_stages
from tilesmith.tensor.text.canonical import program_key
from tilesmith.tuner.apply.tiers import analytic_pick

Builder = Callable[[Program], Artifact]


def cut(program: Program, groups: Sequence[Sequence[Stage]] | None = None) -> list[Program]:
    """A kernel for each group of stages; by default for each stage that an output needs."""
    needed = {stage.name for stage in needed_stages(program).stages}
    chosen = [[stage] for stage in program.stages if stage.name in needed] if groups is None else groups
    return [_kernel(program, group, needed) for group in chosen]


def _kernel(program: Program, stages: Sequence[Stage], needed: set[str]) -> Program:
    own = {tensor.name for stage in stages for tensor in stage.tensors}
    read = dict.fromkeys(r.tensor for stage in stages for r in stage.reads() if r.tensor not in own)
    tables = {table.tensor.name: table for table in program.tables}
    constants = {tensor.name for tensor in program.constant_inputs}
    others = [stage for stage in program.stages if stage.name in needed and stage.name not in own]
    outside = {r.tensor for stage in others for r in stage.reads()} | set(program.outputs)
    outputs = tuple(tensor.name for stage in stages for tensor in stage.tensors if tensor.name in outside)
    inputs = tuple(Input(program.tensors[name], name in constants) for name in read if name not in tables)
    return Program(inputs, tuple(stages), outputs, tuple(tables[name] for name in read if name in tables))


@dataclass
class Builds:
    """Artifacts of kernels: equal kernels have one."""

    threads: int = 1
    analytic: bool = False
    made: dict[str, Artifact] = field(default_factory=dict)

    def __call__(self, program: Program, rows: ArgumentRows = ()) -> Artifact:
        key = f"{program_key(program)} {rows}"
        if key not in self.made:
            self.made[key] = _built(program, self.threads, self.analytic, rows)
        return self.made[key]


def _built(program: Program, threads: int, analytic: bool, rows: ArgumentRows) -> Artifact:
    task = Task.of(program, parse_target("host"), threads)
    if not analytic:
        return build(task.program, UNSCHEDULED, {}, task.target, threads, rows=rows)
    pick = analytic_pick(task)
    return build(task.program, pick.sketch, pick.config, task.target, threads, rows=rows)


def parted(program: Program, builds: Builds) -> Artifact:
    """A program cut as `compile` cuts it, and joined."""
    found = partition(program)
    artifacts = [builds(kernel, found.rows(kernel)) for kernel in found.kernels]
    return compose(found.program, found.kernels, artifacts, found.aliases, found.inside)


def joined(program: Program, builds: Builder, aliases: Mapping[str, str] | None = None) -> Artifact:
    """A program cut at every stage and joined."""
    kernels = cut(program)
    return compose(program, kernels, [builds(kernel) for kernel in kernels], aliases or {})
