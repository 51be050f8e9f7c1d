"""What a template is handed: it names stages and loops, draws tunables, applies steps. Running it once leaves a sketch.

    def tiled(s: Schedule) -> None:
        C = s.stage("C")
        i, j, k = C.loops
        packed = s.variant("pack", [True, False])
        i0, i1 = s.split(i, s.factor("i.tile", at_most=16))
        ...
        s.require(i1.extent <= 16, "rows stay in the registers")

`trace` runs a template once for each combination of variants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..common.errors import ScheduleError, TemplateError, TilesmithError
from ..common.outside import let_through
from ..targets.backend import Multiprocessor
from ..tensor.accuracy import Accuracy
from ..tensor.dtype import DType
from ..tensor.program import Program
from ..tensor.rewrites.registry import is_allowed
from .extents import Condition, Extent, Sym, as_extent, ceildiv, leaf, leaves
from .handles import LoopHandle, StageHandle, StepArgument
from .loops import LoopTree, initial_tree
from .outline import outline
from .rewriting import Rewrite, make_rewrite, rewritten
from .sketch import Sketch, Step, VariantValue, run_steps
from .steps import table as primitives
from .steps.hints import HintMethods
from .tunables import Choice, Factor, Flag, Tunable, check_name

__all__ = ["LoopHandle", "Schedule", "StageHandle", "Template", "trace"]

T = TypeVar("T", bool, int, str)
Template = Callable[["Schedule"], None]


class Schedule(HintMethods):
    """The tracer: each method checks its step on the symbolic loop tree and writes it down."""

    def __init__(
        self,
        program: Program,
        chosen: Sequence[VariantValue] = (),
        accuracy: Accuracy = "default",
        gpu: Multiprocessor | None = None,
    ) -> None:
        self._given = program
        self._accuracy = accuracy
        self._gpu = gpu
        self._begin(program)
        self._rewrites: list[Rewrite] = []
        self._steps: list[Step] = []
        self._tunables: dict[str, Tunable] = {}
        self._requires: list[tuple[Extent, str]] = []
        self._variants: list[tuple[str, VariantValue]] = []
        self._open: dict[str, tuple[int, int, int, Extent]] = {}  # factors whose loop is not known yet
        self._chosen = tuple(chosen)
        self.unexplored: list[tuple[VariantValue, ...]] = []

    def _begin(self, program: Program) -> None:
        self._extents = _symbolic_extents(program)
        self._tree = initial_tree(program, {k: v for k, v in self._extents.items() if not k[1].startswith("#")})

    # ---- looking ----

    @property
    def program(self) -> Program:
        """Returns the program as the steps so far have rewritten it."""
        return self._tree.program

    @property
    def tree(self) -> LoopTree:
        """Returns the symbolic loop tree."""
        return self._tree

    def stage(self, name: str | StageHandle) -> StageHandle:
        """Returns a stage with its present loops. ScheduleError for an unknown one."""
        name = _name(name)
        found = self._tree.loops_of(name)
        return StageHandle(name, self._tree.definition(name), tuple(LoopHandle(x.name, x.extent) for x in found.loops))

    def lanes(self, dtype: DType) -> Sym:
        """Returns how many elements of a dtype a vector register of the target holds."""
        return leaf(f"lanes({dtype.name})")

    def target(self, number: str) -> Sym:
        """Returns a number of the target: vector_registers, cores, fma_ports, load_ports, store_ports, l1, l2, l3 (bytes), or
        has_matrix_unit (1 or 0).
        """
        return leaf(f"target({number})")

    @property
    def gpu(self) -> Multiprocessor:
        """Returns what a multiprocessor of the GPU holds that this is for: the lanes of a warp, the threads of a block, ...

        TemplateError where it is for a processor.
        """
        if self._gpu is None:
            raise TemplateError(
                "this schedule is for a processor, which has no warps", expected="a target that is a GPU"
            )
        return self._gpu

    def allows(self, rewrite: str) -> bool:
        """Tells whether the accuracy that is asked for has room for a rewrite; a sketch with any other one is left out."""
        return is_allowed(rewrite, self._accuracy)

    # ---- leaving open ----

    def variant(self, name: str, options: Sequence[T]) -> T:
        """Chooses a structure, as a plain Python value; each option gives a sketch of its own."""
        if not options or not name or " = " in name or "\n" in name:
            raise TemplateError(
                f"{name!r} is no variant", expected="a name in one line without ' = ', and one or more options"
            )
        number = len(self._variants)
        if number < len(self._chosen):
            value = self._chosen[number]
        else:
            value = options[0]
            before: tuple[VariantValue, ...] = tuple(v for _, v in self._variants)
            self.unexplored += [(*before, other) for other in options[1:]]
        self._variants.append((name, value))
        return value  # type: ignore[return-value]

    def factor(
        self,
        name: str,
        of: Extent | None = None,
        *,
        at_most: int = 1 << 30,
        at_least: int = 1,
        times: Extent = 1,
        default: int = 1,
    ) -> Extent:
        """Leaves a number of trips open, multiplied by `times`. `of`: how many make sense; by default what the split axis has.

        TemplateError: an `of` that depends on a tunable (a domain is fixed before any config is chosen).
        """
        self._new_name(name)
        if of is None:
            self._open[name] = (at_most, at_least, default, times)
        else:
            if self._drawn_in(of):
                raise TemplateError(
                    f"the domain of {name!r} depends on a tunable",
                    expected="of=... made of extents of axes and numbers of the target",
                    found=f"of={of}",
                    advice="leave out of=..., and rule the rest out with s.require(condition, reason)",
                )
            self._tunables[name] = Factor(name, of, at_most, at_least, default)
        return leaf(name) if isinstance(times, int) and times == 1 else leaf(name) * times

    def choice(self, name: str, options: Sequence[int], default: int) -> Sym:
        """Leaves a number open, out of a list without an order."""
        self._new_name(name)
        if default not in options:
            raise TemplateError(
                f"the default of {name!r} is no option", expected=f"one of {list(options)}", found=str(default)
            )
        self._tunables[name] = Choice(name, tuple(options), default)
        return leaf(name)

    def flag(self, name: str, default: bool = False) -> Sym:
        """Leaves a yes or no open, as 1 or 0."""
        self._new_name(name)
        self._tunables[name] = Flag(name, default)
        return leaf(name)

    def require(self, holds: Condition, reason: str) -> None:
        """Rules out the configs for which a condition does not hold."""
        if not reason or "\n" in reason:
            raise TemplateError("require needs a reason", expected="one line that says why", found=repr(reason))
        self._requires.append((as_extent(holds), reason))

    def _drawn_in(self, extent: Extent) -> bool:
        """Tells whether an extent depends on a tunable."""
        return not leaves(extent).isdisjoint((*self._tunables, *self._open))

    def _new_name(self, name: str) -> None:
        check_name(name)
        if name in self._tunables or name in self._open:
            raise TemplateError(f"two tunables are called {name!r}", advice="give each its own name")

    # ---- steps ----

    def rewrite(self, name: str, **arguments: object) -> Program:
        """Rewrites the program, before any other step; gives the new one, in canonical form.

        The names are those of tensor/rewrites/registry.py.
        """
        if self._steps or self._tunables or self._open:
            raise ScheduleError(
                f"the rewrite {name} comes too late", expected="rewrites before the first tunable and the first step"
            )
        made = make_rewrite(name, arguments)
        self._begin(rewritten(self._given, (*self._rewrites, made)))
        self._rewrites.append(made)
        return self.program

    def split(self, loop: LoopHandle, *factors: Extent) -> tuple[LoopHandle, ...]:
        """Cuts a loop in pieces, outermost first; see steps.split."""
        for name, (at_most, at_least, default, times) in list(self._open.items()):
            if any(name in leaves(f) for f in factors):
                self._tunables[name] = Factor(name, ceildiv(self.most(loop), times), at_most, at_least, default)
                del self._open[name]
        self._do("split", loop, *factors)
        return tuple(self._loop(f"{loop.name}.p{n}") for n in range(len(factors) + 1))

    def reorder(self, *loops: LoopHandle) -> None:
        """Puts loops of one stage in this order."""
        self._do("reorder", *loops)

    def vectorize(self, loop: LoopHandle) -> None:
        """Runs a loop in vector lanes."""
        self._do("vectorize", loop)

    def unroll(self, *loops: LoopHandle) -> None:
        """Writes a loop out."""
        if loops:
            self._do("unroll", *loops)

    def parallel(self, *loops: LoopHandle) -> None:
        """Divides the trips of the outermost loops over the threads."""
        if loops:
            self._do("parallel", *loops)

    def bind(self, level: str, dimension: int, *loops: LoopHandle) -> None:
        """Gives loops to GPU blocks, warps or threads."""
        self._do("bind", level, dimension, *loops)

    def compute_at(self, stage: str | StageHandle, loop: LoopHandle) -> StageHandle:
        """Runs a stage inside a loop of its consumer."""
        self._do("compute_at", stage, loop)
        return self.stage(_name(stage))

    def store_at(self, stage: str | StageHandle, loop: LoopHandle) -> None:
        """Keeps what an attached stage has computed from trip to trip, in the loop right outside of the one it runs in."""
        self._do("store_at", stage, loop)

    def on_first_use(self, stage: str | StageHandle, loop: LoopHandle) -> None:
        """Runs an attached stage bit by bit, in the first trips of a loop farther inside that read each bit."""
        self._do("on_first_use", stage, loop)

    def inline(self, *stages: str | StageHandle) -> None:
        """Writes the bodies of stages where they are read, one after another."""
        self.check_factors()
        steps = [Step("inline", (_name(stage),)) for stage in stages]
        self._tree = run_steps(self._tree, steps)
        self._steps += steps

    def copy(self, tensor: str | StageHandle, reader: str | StageHandle, scope: str = "") -> StageHandle:
        """Inserts a stage that copies what `reader` reads of a tensor (cache_read, pack)."""
        tensor = _name(tensor)
        name = f"copy{sum(s.copies is not None for s in self._tree.stages)}"
        source = self._tree.program.tensors.get(tensor)
        for n in range(len(source.shape) if source else 0):
            self._extents[name, f"a{n}"] = self._dimension(tensor, n)
        self._do("copy", name, tensor, reader, scope)
        return self.stage(name)

    def most(self, loop: LoopHandle) -> Extent:
        """Returns what a loop can have at most in any config: that of its axis where the loop itself depends on tunables."""
        if not self._drawn_in(loop.extent):
            return loop.extent
        stage = self._tree.owner(loop.name)
        return self._extents[stage.stage, stage.loop(loop.name).axis]

    def _loop(self, name: str) -> LoopHandle:
        loop = self._tree.owner(name).loop(name)
        return LoopHandle(loop.name, loop.extent)

    def _dimension(self, tensor: str, number: int) -> Extent:
        producer = self._tree.program.producers.get(tensor)
        if producer is None:
            return self._extents[tensor, f"#{number}"]
        index = [t.name for t in producer.tensors].index(tensor)
        return self._extents[producer.name, producer.axes_of(index)[number].name]

    def _do(self, op: str, *given: StepArgument) -> None:
        if op != "split":
            self.check_factors()
        arguments = tuple(one.name if isinstance(one, (StageHandle, LoopHandle)) else one for one in given)
        step = Step(op, arguments)
        extents = self._extents
        if op == "copy":
            extents = dict(extents)
            tensor = str(arguments[1])
            source = self._tree.program.tensors.get(tensor)
            for n in range(len(source.shape) if source else 0):
                extents[tensor, f"#{n}"] = self._dimension(tensor, n)
        self._tree = step.run(self._tree, primitives.Context(len(self._steps), extents), None)
        self._steps.append(step)

    def check_factors(self) -> None:
        """Raises TemplateError if a factor was drawn whose domain is not known, because no loop has been split by it."""
        for name in self._open:
            raise TemplateError(
                f"factor {name!r} was drawn, and no loop is split by it",
                expected="a split by each factor before the next step",
                advice="split by it at once, or say what it is a factor of with of=...",
            )

    def sketch(self, name: str) -> Sketch:
        """Returns what has been written down so far, as a sketch."""
        return Sketch(
            name,
            tuple(self._steps),
            tuple(self._tunables.values()),
            tuple(self._variants),
            tuple(self._requires),
            tuple(self._rewrites),
        )


def trace(
    template: Template,
    program: Program,
    name: str = "",
    at_most: int | None = None,
    accuracy: Accuracy = "default",
    gpu: Multiprocessor | None = None,
) -> tuple[Sketch, ...]:
    """Returns the sketches of a template for a canonical program. TemplateError names the template and shows the outline.

    at_most: how many runs of the template there may be; those that take the first option of the most variants come first.
    accuracy: sketches that do more than it allows are left out.
    gpu: what a multiprocessor holds, where the target is a GPU.
    """
    name = name or template.__name__
    found: list[Sketch] = []
    pending: list[tuple[VariantValue, ...]] = [()]
    while pending and (at_most is None or len(found) < at_most):
        # each round of the queue has one more option that is no first one
        schedule = Schedule(program, pending.pop(0), accuracy, gpu)
        try:
            template(schedule)
            schedule.check_factors()
            found.append(schedule.sketch(name))
        except TilesmithError as error:
            raise _blame(name, schedule, error) from error
        except Exception as error:  # a template is a person's code: whatever it raises is named
            let_through(error)
            raise _blame(name, schedule, error) from error
        pending += schedule.unexplored
    first: dict[str, Sketch] = {}
    for sketch in found:
        if sketch.keeps(accuracy):
            first.setdefault(sketch.key, sketch)
    return tuple(first.values())


def _blame(name: str, schedule: Schedule, error: Exception) -> TemplateError:
    where = outline(schedule.tree)
    if not isinstance(error, TilesmithError):
        problem = f"template {name!r} failed: {type(error).__name__}: {error}"
        return TemplateError(problem, advice="the outline shows what it had done so far", where=where)
    return TemplateError(
        f"template {name!r} failed: {error.problem}",
        expected=error.expected, found=error.found, advice=error.advice, where=error.where or where,
    )  # fmt: skip


def _name(stage: str | StageHandle) -> str:
    """Returns the name of a stage or a tensor, which may be given as a handle."""
    return stage.name if isinstance(stage, StageHandle) else stage


def _symbolic_extents(program: Program) -> dict[tuple[str, str], Extent]:
    extents: dict[tuple[str, str], Extent] = {}
    for stage in program.stages:
        for axis in stage.all_axes:
            extents[stage.name, axis.name] = leaf(f"extent({stage.name}.{axis.name})")
    for table in program.tables:
        for n, extent in enumerate(table.tensor.shape):
            extents[table.tensor.name, f"#{n}"] = extent
    for declared in program.inputs:
        for n in range(len(declared.tensor.shape)):
            extents[declared.tensor.name, f"#{n}"] = leaf(f"extent({declared.tensor.name}.d{n})")
    return extents
