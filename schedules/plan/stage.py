"""The plan of all stages of a loop tree: see the head of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...common.cached import cached_property
from ...tensor.indices.bounds import Bound
from ..loops import LoopTree, Scope, StageLoops
from ..prepared import prepared_stages
from ..useful import useful
from .loops import LoopPlan, loop_plan
from .storage import StoragePlan, storage_plans
from .straight import Beginning, beginnings


@dataclass(frozen=True, slots=True)
class StagePlan:
    """Holds what is decided about one stage. `prepared`: computed once, when the kernel is made; `straight`: where the straight
    code may begin."""

    stage: StageLoops
    prepared: bool
    loops: LoopPlan
    storage: tuple[StoragePlan, ...]
    straight: tuple[Beginning, ...]

    @property
    def body(self) -> int:
        """Counts the loops that are run around the straight code; of a plan in which that is decided."""
        first = self.straight[0]
        assert first.when is True, "straight code begins elsewhere from candidate to candidate: see variants.py"
        return first.depth

    @property
    def in_registers(self) -> bool:
        """Says whether its values never are in memory; of a plan in which that is decided."""
        return all(storage.scope is Scope.REGISTER for storage in self.storage)


@dataclass(frozen=True, eq=False)
class Plan:
    """The plans of all stages, by name, in program order.

    gpu: for the threads of one. useful: the bounds of each stage that has some (useful.py).
    """

    gpu: bool
    stages: Mapping[str, StagePlan]
    useful: Mapping[str, tuple[Bound, ...]]

    def of_tensor(self, name: str) -> StoragePlan | None:
        """The storage of a tensor by its name; None for an input or a table."""
        return self._tensors.get(name)

    @cached_property
    def _tensors(self) -> dict[str, StoragePlan]:
        return {storage.tensor.name: storage for stage in self.stages.values() for storage in stage.storage}

    def storage(self, stage: str, number: int = 0) -> StoragePlan:
        """The storage of a tensor of a stage."""
        return self.stages[stage].storage[number]


def plan_of(tree: LoopTree, gpu: bool) -> Plan:
    """The plan of a tree to which a config or a population has been applied. `gpu`: for the threads of one."""
    prepared = prepared_stages(tree)
    bounds = {} if gpu else useful(tree.program)  # threads of a GPU meet in every trip
    found = {}
    for stage in tree.stages:
        ahead = stage.stage in prepared
        loops = loop_plan(tree, stage, gpu, bounds.get(stage.stage, ()))
        storage = storage_plans(tree, stage, ahead, gpu)
        found[stage.stage] = StagePlan(stage, ahead, loops, storage, beginnings(stage, loops, gpu))
    return Plan(gpu, found, bounds)
