"""The way of a candidate from text to machine code. Read this first.

program, sketch, config  --apply-->  loop tree  --lower-->  loop IR  --emit-->  LLVM IR  --compile-->  Artifact
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ..common.debug import Level, show
from ..common.errors import ScheduleError
from ..schedules.access import points_of
from ..schedules.loops import LoopTree
from ..schedules.outline import outline
from ..schedules.sketch import UNSCHEDULED, Sketch, broken_conditions, parse_sketch
from ..schedules.space import Value
from ..schedules.task import normalised
from ..targets.target import Target, parse_target
from ..tensor.program import Program, Tensor
from ..tensor.text.parse import parse
from .artifact import Artifact, BufferSpec
from .backends.cpu import assemble
from .backends.nvptx import assemble_kernels
from .code_size import check_size
from .emulator.kernels import compile_emulated
from .ir.loop_ir import LoopProgram
from .ir.printing import print_loops
from .lower.lower import lower
from .passes.keep_small_serial import keep_small_serial
from .passes.run_together import run_together


def loop_tree(program: Program, sketch: Sketch, config: Mapping[str, Value], target: Target) -> LoopTree:
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


def loop_program(program: Program, sketch: Sketch, config: Mapping[str, Value], target: Target) -> LoopProgram:
    """The loop IR of a candidate."""
    return lower(loop_tree(program, sketch, config, target), target, kernel_name(program))


def build(
    program: Program,
    sketch: Sketch,
    config: Mapping[str, Value],
    target: Target,
    threads: int,
    texts: bool = False,
) -> Artifact:
    """Compiles a candidate of a program in canonical form.

    `texts`: keep outline, loop IR, LLVM IR and assembly in the artifact. ScheduleError: not a valid candidate.
    """
    started, name = time.perf_counter(), kernel_name(program)
    tree = loop_tree(program, sketch, config, target)
    show(Level.OUTLINE, name, lambda: outline(tree))
    loops = lower(tree, target, name)
    if threads > 1 and target.kind != "cuda":
        loops = keep_small_serial(run_together(loops, target, threads), target)
    check_size(loops, threads)
    show(Level.LOOPS, name, lambda: print_loops(loops))
    lowered = time.perf_counter() - started
    artifact = assembled(loops, target, threads, texts)
    more = {"outline": outline(tree), "loops": print_loops(loops)} if texts else {}
    return replace(
        artifact,
        inputs=_specs(program.dynamic_inputs),
        constants=_specs(program.constant_inputs),
        outputs=_specs(tuple(program.tensors[name] for name in program.outputs)),
        texts={**more, **artifact.texts},
        seconds={"lower": lowered, **artifact.seconds},
    )


def assembled(loops: LoopProgram, target: Target, threads: int, texts: bool = False) -> Artifact:
    """Loop IR as an artifact: an object file, PTX for a GPU, or what the emulator runs in its place."""
    if target.kind == "cuda":
        return assemble_kernels(loops, target, texts, compile_emulated if target.is_emulator else None)
    return assemble(loops, target, threads, texts)


def build_candidate(
    program: str, sketch: str, config: Mapping[str, Value], target: str, threads: int, texts: bool = False
) -> Artifact:
    """As `build`, from texts: all that another process needs. An empty sketch is the unscheduled nest."""
    return build(
        _program(program), _sketch(sketch) if sketch else UNSCHEDULED, config, parse_target(target), threads, texts
    )


_program = lru_cache(maxsize=64)(parse)
_sketch = lru_cache(maxsize=256)(parse_sketch)


def _specs(tensors: tuple[Tensor, ...]) -> tuple[BufferSpec, ...]:
    """Arguments as the person knows them: normalising a program merges axes, which moves no element."""
    return tuple(BufferSpec(t.name, t.dtype.name, t.shape) for t in tensors)


def kernel_name(program: Program) -> str:
    """A name for machine code: operators, dtype and sizes, such as matmul_bias_relu_f32_512x1024x1024."""
    operators = "_".join(dict.fromkeys(s.origin.operator for s in program.stages if s.origin.operator)) or "kernel"
    largest = max(program.stages, key=points_of)
    sizes = "x".join(str(a.extent) for a in largest.all_axes)
    return f"{operators}_{largest.tensors[0].dtype}_{sizes}"
