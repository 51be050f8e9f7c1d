"""The way of a candidate from text to machine code. Read this first.

    program, sketch, config  --apply-->  loop tree  --lower-->  loop IR  --emit-->  LLVM IR  --compile-->  Artifact

What is done from the loop tree on stands in one list for each kind of backend, to be read from top to bottom: PROCESSOR, GPU,
EMULATOR. `build` follows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import lcm

from ..common.debug import DebugLevel, show
from ..common.errors import ScheduleError
from ..schedules.access import points_of
from ..schedules.loops import LoopTree
from ..schedules.outline import outline
from ..schedules.plan.stage import Plan
from ..schedules.sketch import UNSCHEDULED, Sketch, broken_conditions, parse_sketch
from ..schedules.space import ConfigValue
from ..schedules.task import normalised
from ..targets.target import Target, parse_target
from ..tensor.dtype import i64
from ..tensor.expr import Const, Op, walk
from ..tensor.program import Program, Stage, Tensor
from ..tensor.text.parse import parse
from .artifact import Artifact, BufferSpec
from .backends.cpu import assemble
from .backends.gpu import assemble_kernels
from .code_size import check_size
from .debug_info.places import DebugSource, debug_source, forget_origins
from .emulator.kernels import compile_emulated
from .ir.loop_ir import LoopProgram
from .ir.printing import print_loops
from .lower.lower import lower, planned
from .passes.barriers import barriers
from .passes.join_branches import join_branches
from .passes.join_windows import join_windows
from .passes.keep_small_serial import keep_small_serial
from .passes.known_borders import known_borders
from .passes.lift_branches import lift_branches
from .passes.narrow_values import narrow_values
from .passes.peel_interiors import peel_interiors
from .passes.reciprocals import reciprocals
from .passes.run import Pass, run_passes, verified
from .passes.run_together import run_together
from .passes.split_exceptional import split_exceptional
from .passes.whole_copies import whole_copies
from .passes.whole_ends import whole_ends
from .passes.whole_ranges import whole_ranges
from .passes.whole_tiles import whole_tiles
from .rows import ArgumentRows, PitchedRows


@dataclass(frozen=True, slots=True)
class PassContext:
    """Holds what passes over a whole program may ask for."""

    plan: Plan
    target: Target
    threads: int
    program: Program


def _whole_ranges(loops: LoopProgram, of: PassContext) -> LoopProgram:
    return whole_ranges(loops) if of.plan.useful else loops


def _whole_tiles(loops: LoopProgram, of: PassContext) -> LoopProgram:
    return loops if of.target.has_masks else whole_tiles(loops, _divisors(of.program))


def _whole_ends(loops: LoopProgram, of: PassContext) -> LoopProgram:
    return loops if of.target.has_masks else whole_ends(loops, _divisors(of.program))


def _run_together(loops: LoopProgram, of: PassContext) -> LoopProgram:
    return run_together(loops, of.target, of.threads) if of.threads > 1 else loops


def _keep_small_serial(loops: LoopProgram, of: PassContext) -> LoopProgram:
    return keep_small_serial(loops, of.target) if of.threads > 1 else loops


@dataclass(frozen=True, slots=True)
class Steps:
    """Leads from a loop tree to machine code, for one kind of target. The fields stand in the order in which things are
    done."""

    lower: Callable[[LoopTree, Target, str, Plan, Mapping[str, PitchedRows]], LoopProgram]
    program: tuple[Callable[[LoopProgram, PassContext], LoopProgram], ...]  # what comes out is what people are shown
    nest: tuple[Pass, ...]  # what comes out is written as code
    code: Callable[
        [LoopProgram, Target, int, tuple[Pass, ...], bool, DebugSource | None], Artifact
    ]  # runs `nest`, writes LLVM IR, compiles it


PROCESSOR = Steps(
    lower=lower,
    program=(
        _whole_ranges,  # loops are cut where a condition on indices begins to fail, if conditions end loops at all
        _whole_tiles,  # without masks in hardware, the last of the tiles that others run in ends with a whole vector
        _whole_ends,  # without masks in hardware, the last tile of an axis begins earlier
        _run_together,  # light nests run in the parallel region of a later one
        _keep_small_serial,  # nests that are done before threads would have started run in one
    ),
    # Nests are compared here: one that another candidate had is compiled already, and what follows is not done again.
    nest=(
        narrow_values,  # integers that are cut to fewer bits are computed in fewer
        split_exceptional,  # where nobody asks for exceptional values, the end of a tile chooses nothing
        reciprocals,  # quotients by what stays the same in a loop become products
        lift_branches,  # branches move out of what is written out
        join_branches,  # neighbours that ask the same ask once
        join_windows,  # sums over equal windows that read the same walk them together
        known_borders,  # vectors at borders are written out, so that their masks are known
        peel_interiors,  # loops over blocks of stencils ask once where blocks lie inside of all borders
        whole_copies,  # copies run without conditions that hold throughout
    ),
    # emit/cpu/module.py writes LLVM IR, LLVM's passes are LLVM_PASSES of the backend, LLVM emits an object
    code=assemble,
)

GPU = Steps(
    lower=lower,
    program=(),
    nest=(
        barriers,  # threads of a block meet where one reads what another wrote
        reciprocals,
        lift_branches,
    ),
    # emit/gpu/ writes LLVM IR, LLVM's passes are LLVM_PASSES of the backend, LLVM emits PTX or an object
    code=assemble_kernels,
)

EMULATOR = replace(
    GPU,
    # the same LLVM IR becomes coroutines (emulator/kernels.py), LLVM's own pipeline O1 follows, LLVM emits an object
    code=partial(assemble_kernels, emulate=compile_emulated),
)


PASSES = {"processor": PROCESSOR, "gpu": GPU}  # by the name that a backend has for its own


def steps_of(target: Target) -> Steps:
    """Says which list a target follows."""
    return EMULATOR if target.is_emulator else PASSES[target.backend.passes]


def loop_tree(program: Program, sketch: Sketch, config: Mapping[str, ConfigValue], target: Target) -> LoopTree:
    """The loop tree of a candidate, numbers filled in. ScheduleError lists the conditions that the config breaks."""
    tree = sketch.apply(normalised(program), target, config)
    broken = broken_conditions(tree)
    if broken:
        raise ScheduleError(
            f"the config is not valid for sketch {sketch.title}",
            expected="; ".join(broken),
            found=", ".join(f"{name}={value}" for name, value in config.items()),
        )
    return tree


def loop_program(
    program: Program, sketch: Sketch, config: Mapping[str, ConfigValue], target: Target, threads: int = 1
) -> LoopProgram:
    """The loop IR of a candidate."""
    return loop_ir(loop_tree(program, sketch, config, target), target, threads, kernel_name(program))


def loop_ir(
    tree: LoopTree, target: Target, threads: int = 1, name: str = "kernel", rows: ArgumentRows = ()
) -> LoopProgram:
    """The loop IR of a loop tree, as people are shown it. `rows`: see `build`. ScheduleError: a schedule without code."""
    steps = steps_of(target)
    plan = planned(tree, target)
    arguments = [*(tensor.name for tensor in tree.program.dynamic_inputs), *tree.program.outputs]
    apart = {name: lies for name, lies in zip(arguments, rows, strict=bool(rows)) if lies is not None}
    loops = verified(steps.lower(tree, target, name, plan, apart), "after lowering")
    return run_passes(loops, steps.program, PassContext(plan, target, threads, tree.program))


def _divisors(program: Program) -> dict[str, int]:
    """Returns, of each tensor that is computed, a common multiple of what indices are divided by there."""
    return {tensor.name: _common_divisor(stage) for stage in program.stages for tensor in stage.tensors}


def _common_divisor(stage: Stage) -> int:
    found = 1
    for node in (node for expression in stage.expressions for node in walk(expression)):
        if isinstance(node, Op) and node.name in ("floordiv", "mod") and isinstance(node.args[1], Const):
            found = lcm(found, max(int(node.args[1].value), 1)) if node.dtype == i64 else found
    return found


def assembled(
    loops: LoopProgram, target: Target, threads: int, texts: bool = False, source: DebugSource | None = None
) -> Artifact:
    """Loop IR as an artifact: an object file, PTX for a GPU, or what the emulator runs in its place. `source`: what debug
    information tells of."""
    steps = steps_of(target)
    return steps.code(loops, target, threads, steps.nest, texts, source)


def build(
    program: Program,
    sketch: Sketch,
    config: Mapping[str, ConfigValue],
    target: Target,
    threads: int,
    texts: bool = False,
    rows: ArgumentRows = (),
) -> Artifact:
    """Compiles a candidate of a program in canonical form.

    Args:
        texts: keep outline, loop IR, LLVM IR and assembly in the artifact.
        rows: of each input, then of each output, where its elements do not lie side by side; none at all: they do.

    ScheduleError: not a valid candidate.
    """
    started, name = time.perf_counter(), kernel_name(program)
    forget_origins()
    tree = loop_tree(program, sketch, config, target)
    show(DebugLevel.OUTLINE, name, lambda: outline(tree))
    loops = loop_ir(tree, target, threads, name, rows)
    check_size(loops, threads)
    show(DebugLevel.LOOPS, name, lambda: print_loops(loops))
    lowered = time.perf_counter() - started
    artifact = assembled(loops, target, threads, texts, debug_source(program, tree, name))
    more = {"outline": outline(tree), "loops": print_loops(loops)} if texts else {}
    return replace(  # arguments as the person knows them: normalising a program merges axes, which moves no element
        artifact,
        inputs=argument_specs(program.dynamic_inputs, rows[: len(program.dynamic_inputs)]),
        constants=argument_specs(program.constant_inputs),
        outputs=argument_specs(
            [program.tensors[name] for name in program.outputs], rows[len(program.dynamic_inputs) :]
        ),
        texts={**more, **artifact.texts},
        seconds={"lower": lowered, **artifact.seconds},
    )


def build_candidate(
    program: str, sketch: str, config: Mapping[str, ConfigValue], target: str, threads: int, texts: bool = False
) -> Artifact:
    """Works as `build`, from texts: all that another process needs. An empty sketch is the unscheduled nest."""
    return build(
        _program(program), _sketch(sketch) if sketch else UNSCHEDULED, config, parse_target(target), threads, texts
    )


_program = lru_cache(maxsize=64)(parse)
_sketch = lru_cache(maxsize=256)(parse_sketch)


def argument_specs(tensors: Sequence[Tensor], rows: ArgumentRows = ()) -> tuple[BufferSpec, ...]:
    """Tensors as arguments. `rows`: of each of them; none at all: their elements lie side by side."""
    lies = rows or (None,) * len(tensors)
    return tuple(BufferSpec(t.name, t.dtype.name, t.shape, own) for t, own in zip(tensors, lies, strict=True))


def kernel_name(program: Program) -> str:
    """A name for machine code: operators, dtype and sizes, such as matmul_bias_relu_f32_512x1024x1024.

    Of a program that was written as text, which names no operators: how its stages combine values, as sum_f32_512x1024x1024.
    """
    operators = "_".join(dict.fromkeys(s.origin.operator for s in program.stages if s.origin.operator))
    operators = operators or "_".join(dict.fromkeys(s.combiner for s in program.stages if s.combiner)) or "pointwise"
    largest = max(program.stages, key=points_of)
    sizes = "x".join(str(a.extent) for a in largest.all_axes)
    return f"{operators}_{largest.tensors[0].dtype}_{sizes}"
