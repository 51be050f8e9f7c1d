"""What `tilesmith.explain` gives: what of a model is covered, what stays in torch and why, and how it is cut into kernels."""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.pipeline import kernel_name
from ...common.printable import printable
from ...graph.partition.partition import partition
from ...schedules.prepared import constant_tensors
from ...targets.host import host_target
from ...tensor.program import Program
from ..kernels import parts_of
from ..roofline import program_work
from .tasks import ModelTask, model_tasks

_WIDTH = 60  # columns of a kernel's name, so that layers stand below each other


@dataclass(frozen=True, slots=True)
class ModelCut:
    """Says how a program is cut. `str` of it is a table of its kernels, those with the most operations first.

    Attributes:
        kernels: equal ones once, with where they are called.
        stages: of the program.
        views: tensors that are other tensors' memory under another shape: no kernel at all.
        prepared: stages that depend on constants alone, computed once.
        whole: it is not cut: one search has all of it.
    """

    name: str
    kernels: tuple[ModelTask, ...]
    stages: int
    views: int
    prepared: int
    whole: bool

    def __str__(self) -> str:
        calls = sum(kernel.count for kernel in self.kernels)
        how = "searched as one kernel" if self.whole else f"cut into {calls} calls of {len(self.kernels)} kernels"
        said = [f"{self.name}: {self.stages} stages, {how}"]
        if self.views:
            said.append(f"{self.views} views cost nothing")
        if self.prepared:
            said.append(f"{self.prepared} stages depend on constants alone and are computed once")
        rows = sorted(self.kernels, key=lambda kernel: -kernel.count * program_work(kernel.program).flops)
        head = f"{'calls':>5} {'MFLOP':>9}  {'kernel':<{_WIDTH}}  layers"
        return printable("\n".join(["; ".join(said), head, *map(_row, rows)]))


def _row(kernel: ModelTask) -> str:
    work = kernel.count * program_work(kernel.program).flops / 1e6
    return f"{kernel.count:5} {work:9.1f}  {kernel_name(kernel.program):<{_WIDTH}}  {kernel.place}"


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that torch.compile hands over: what of it is computed here, and what stays in torch.

    Attributes:
        title: "inference", "forward" or "backward".
        operators: how many it has.
        covered: how many of them are computed here.
        views: how many are views that torch makes of its own tensors, for nothing.
        left: operators that stay in torch, with the reason and the nodes of each.
        parts: the models that are compiled, and how each is cut.
    """

    title: str
    operators: int
    covered: int
    views: int
    left: tuple[tuple[str, str, tuple[str, ...]], ...]
    parts: tuple[ModelCut, ...]

    def __str__(self) -> str:
        views = f"; {self.views} are views that torch makes" if self.views else ""
        lines = [
            f"{self.title}: {self.covered} of {self.operators} operators are covered, in {len(self.parts)} parts{views}"
        ]
        for operator, why, nodes in self.left:
            reason = f" ({why})" if why != operator else ""
            lines.append(f"  stays in torch: {operator}{reason}: {', '.join(nodes)}")
        return printable("\n".join([*lines, *map(str, self.parts)]))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Holds what `explain` gives. `str` of it is for people.

    Attributes:
        graphs: of a module of torch: each graph that torch.compile makes of it.
        breaks: why torch could not trace a module as one graph, in its words.
        cuts: of a model or a program: how it is cut.
    """

    cuts: tuple[ModelCut, ...] = ()
    graphs: tuple[Graph, ...] = ()
    breaks: tuple[str, ...] = ()

    def __str__(self) -> str:
        broken = [f"torch breaks the graph: {why}" for why in self.breaks]
        return printable("\n\n".join(map(str, [*broken, *self.graphs, *self.cuts])))


def cut_of(program: Program, name: str) -> ModelCut:
    """Says how a program is cut on this machine."""
    target = host_target()
    parts, found = parts_of(program, target), partition(program)
    given = constant_tensors(program)
    return ModelCut(
        name, model_tasks(program, target, 1, "default"), len(program.stages), len(found.aliases),
        sum(stage.name in given for stage in program.stages), parts is None,
    )  # fmt: skip
