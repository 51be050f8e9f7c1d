"""LLVM IR text to machine code for CPU targets.

The passes are few, because the text is made with care (see emit/cpu/module.py). Measured on matmul 1024^3 with register tiles
of 6x4, 8x3 and 12x2 vectors, k unrolled by 4, on one core of a Zen 4 with an FMA peak of 117 GFLOP/s (ms of processor time for
everything from the loop tree to the object; GFLOP/s):

    inliner alone                          27  46  37     111.5  108.4  100.8
    inliner, instcombine (what is used)    29  48  39     111.8  107.8  100.2
    + simplifycfg                          29  49  39     111.2  108.2  100.4
    + new-gvn in front                     +3             111.6  108.1  100.3
    + loop-strength-reduce                 +4..14         111.4  108.2  100.1
    LLVM's O3 without its vectorizers      62  87  88     111.5  108.3  100.3

So no pass makes these kernels faster. instcombine is kept for the code around them: masks, clamps and casts of edges, which it
shortens. Code emission at levels 1, 2 and 3 gives the same code in the same time; at level 0 every tile is spilled.

Instructions stay in the order of the text. LLVM's scheduler before register allocation moves the loads of all copies of an
unrolled body to its top: of tiles with 24 to 28 accumulators it then spilled every one in each trip (the 12x2 above is such a
one). Without it, two cores of an EPYC 9004, us: 197x768x768 with 9x3 vectors and k unrolled by two 2670 before, 1222 after;
512x512x512 1667 and 1321; convolutions of 64x56x56 and 256x14x14 901 and 745, 732 and 611 (all four the choice of the analytic
model without a trial). Of 67 winners of searches on twelve programs the best of each program took 0.93 to 1.01 times as long,
single ones up to 1.06 (of a transpose, whose times are far apart, 0.96 to 1.12); compiling took 8% less.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from ...common.debug import DebugLevel, show, wanted
from ...common.errors import InternalError
from ...common.forks import lock
from ...common.once import once
from ...targets.target import Target
from ..artifact import Artifact, BufferSpec, Launch
from ..debug_info.metadata import DebugText
from ..debug_info.places import DebugSource
from ..emit.cpu.module import emit_apart, emit_nest, emit_parts, emit_together
from ..emit.module_text import ModuleText
from ..ir.loop_ir import Buffer, LoopProgram, Scope
from ..ir.memory_plan import plan_memory
from ..ir.nest_part import NestPart
from ..passes.run import Pass, run_passes

# Stands in records: raise it where code gets slower or faster, as times of older code do not answer then.
CODEGEN_VERSION = 33

LLVM_PASSES = (
    "always_inliner",  # the vector math functions
    "instruction_combine",  # peepholes
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """An object file, its assembly if asked for, and the seconds of each part (parse, optimize, code). `module`: the optimized
    IR as bitcode."""

    code: bytes
    asm: str
    optimized: str
    seconds: dict[str, float] = field(default_factory=dict)
    module: bytes = b""


@once
def _keep_order() -> None:
    """Switches off the scheduler before register allocation, and what adds up sums of integers in another order, which takes
    twice as many registers (products of halves, 6 x 2 accumulators in 16 registers: 117 GOP/s with it, 144 without). LLVM has
    these only for a whole process, once."""
    import llvmlite.binding as llvm

    llvm.set_option("tilesmith", "--enable-misched=false")
    llvm.set_option("tilesmith", "--x86-machine-combiner=false")


@lru_cache(maxsize=8)
def machine(target: Target) -> Any:
    """The LLVM target machine, with an explicit cpu and features. Raises InternalError if LLVM does not know the triple."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    _keep_order()
    try:
        known = llvm.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise InternalError(f"LLVM cannot compile for {target.triple}", found=str(error)) from error
    return known.create_target_machine(
        cpu=target.cpu, features=target.llvm_features, opt=2, reloc="pic", codemodel="default"
    )


def builder_version() -> str:
    """Returns what compiled an artifact: the version of this code generator and of LLVM."""
    import llvmlite.binding as llvm

    return f"codegen {CODEGEN_VERSION}, llvm {'.'.join(map(str, llvm.llvm_version_info))}"


def compile_object(ir: str, target: Target, texts: bool = False) -> Compiled:
    """Machine code for a module's text. `texts`: also the optimized IR and the assembly.

    Raises InternalError with LLVM's message if the text is not valid IR, which is a defect of the emitter.
    """
    tm = machine(target)
    started = time.perf_counter()
    module = parse_module(ir, target.triple, tm)
    parsed = time.perf_counter()
    optimize(module, tm)
    optimized = time.perf_counter()
    text = str(module) if texts else ""
    bitcode: bytes = module.as_bitcode()  # before code is written, which changes the module
    asm = tm.emit_assembly(module) if texts else ""
    before_code = time.perf_counter()
    code = tm.emit_object(module)
    done = time.perf_counter()
    seconds = {"parse": parsed - started, "optimize": optimized - parsed, "code": done - before_code}
    return Compiled(code, asm, text, seconds, bitcode)


def parse_module(ir: str, triple: str = "", tm: Any = None) -> Any:
    """A module's text as a verified module, for a target machine if one is given. InternalError as in `compile_object`."""
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(ir)
        if tm is not None:
            module.triple = triple
            module.data_layout = str(tm.target_data)
        module.verify()
    except RuntimeError as error:
        raise InternalError("the emitted LLVM IR is not valid", found=str(error)) from error
    return module


def optimize(module: Any, tm: Any) -> None:
    """Runs LLVM's passes."""
    import llvmlite.binding as llvm

    builder = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    for name in LLVM_PASSES:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """An object, the text that it was made of if asked for, and the symbols of the threading runtime that it needs."""

    compiled: Compiled
    llvm: str
    runtime_symbols: frozenset[str]


Key = tuple[object, ...]
CONSTANTS = (Scope.CONSTANT, Scope.HELD)
_KEPT = 256  # objects of a process: those of the programs that it works on
_modules: OrderedDict[Key, CompiledModule] = OrderedDict()
_modules_lock = lock()


def _shared(
    key: Key, write: Callable[[], ModuleText], target: Target, texts: bool
) -> tuple[CompiledModule, dict[str, float]]:
    """A module that candidates share, and the seconds that it took: none if it was compiled before under this key."""
    if not texts:
        with _modules_lock:
            found = _modules.get(key)
            if found is not None:
                _modules.move_to_end(key)
                return found, {}
    made, seconds = _compiled(write, target, texts)
    if not texts:
        with _modules_lock:
            _modules[key] = made
            if len(_modules) > _KEPT:
                _modules.popitem(last=False)
    return made, seconds


def _compiled(write: Callable[[], ModuleText], target: Target, texts: bool) -> tuple[CompiledModule, dict[str, float]]:
    """A module, and the seconds of each part."""
    started = time.perf_counter()
    module = write()
    ir = module.text()
    emitted = time.perf_counter() - started
    compiled = compile_object(ir, target, texts)
    made = CompiledModule(compiled, ir if texts else "", frozenset(module.runtime_symbols))
    return made, {"emit": emitted, **compiled.seconds}


def assemble(
    program: LoopProgram,
    target: Target,
    threads: int,
    passes: tuple[Pass, ...],
    texts: bool = False,
    source: DebugSource | None = None,
) -> Artifact:
    """Loop IR as an Artifact. `texts` keeps "llvm" and "asm" in it. `source`: what its debug information tells of.

    passes: over each nest, before it is written. One nest is in the same object as what calls it; several have objects of their
    own. Candidates share these, and the object that calls nests; only the table of the nests is a candidate's own.
    """
    started = time.perf_counter()
    keeps = texts or wanted(DebugLevel.LLVM)
    plan = plan_memory(program, threads)
    caller, parts = emit_parts(program, plan)
    seconds = {"emit": time.perf_counter() - started, "parse": 0.0, "optimize": 0.0, "code": 0.0}
    made = _objects(caller, parts, target, passes, source, keeps)
    for _, spent in made:
        for name, value in spent.items():
            seconds[name] += value
    modules = [module for module, _ in made]
    written = "\n".join(module.llvm for module in modules)
    asm = "\n".join(module.compiled.asm for module in modules)
    show(DebugLevel.LLVM, program.name, written)
    show(DebugLevel.ASSEMBLY, program.name, asm)
    code, *others = (module.compiled.code for module in modules)
    return Artifact(
        name=program.name,
        target=target.text,
        threads=threads,
        format="object",
        code=code,
        symbol=caller.symbol,
        inputs=specs(program, Scope.INPUT),
        constants=specs(program, *CONSTANTS),
        held=held(program),
        outputs=specs(program, Scope.OUTPUT),
        prepared_bytes=plan.prepared_bytes,
        preparing_bytes=plan.preparing_bytes,
        workspace_bytes=plan.workspace_bytes,
        launches=tuple(Launch(symbol) for symbol in caller.nests),
        runtime_symbols=tuple(sorted(frozenset().union(*(module.runtime_symbols for module in modules)))),
        builder=builder_version(),
        parts=tuple(others),
        modules=tuple(module.compiled.module for module in modules),
        texts={"llvm": written, "asm": asm} if texts else {},
        seconds=seconds,
    )


def _objects(
    caller: ModuleText,
    parts: Sequence[NestPart],
    target: Target,
    passes: tuple[Pass, ...],
    source: DebugSource | None,
    keeps: bool,
) -> list[tuple[CompiledModule, dict[str, float]]]:
    """The objects of a program, the one that calls the nests first, and the seconds of each. `keeps`: their texts."""

    def passed(part: NestPart) -> NestPart:
        return replace(part, nest=run_passes(part.program, passes).nests[0])

    def debug_text(part: NestPart) -> DebugText | None:
        return None if source is None else DebugText(source.places_of(part.nest))

    def apart(part: NestPart) -> ModuleText:
        done = passed(part)
        return emit_nest(done, target, debug_text(done))

    def together() -> ModuleText:
        done = [passed(part) for part in parts]
        caller.debug = debug_text(done[0]) if done else None
        return emit_together(caller, done, target)

    if len(parts) < 2:
        return [_compiled(together, target, keeps)]
    calling, table = emit_apart(caller, parts, target)
    if source is not None:  # nests of equal code come from other lines
        writers: list[Callable[[], ModuleText]] = [lambda: calling, lambda: table]
        writers += [partial(apart, part) for part in parts]
        return [_compiled(write, target, keeps) for write in writers]
    return [
        _shared((calling.text(), target), lambda: calling, target, keeps),
        _compiled(lambda: table, target, keeps),
        *(_shared((part.symbol, target, passes), partial(apart, part), target, keeps) for part in parts),
    ]


def held(program: LoopProgram) -> tuple[int, ...]:
    """Says which constants calls read where they are, by number."""
    constants = [buffer for buffer in program.arguments if buffer.scope in CONSTANTS]
    return tuple(number for number, buffer in enumerate(constants) if buffer.scope is Scope.HELD)


def specs(program: LoopProgram, *scopes: Scope) -> tuple[BufferSpec, ...]:
    """The arguments of some scopes."""

    def spec(buffer: Buffer) -> BufferSpec:
        return BufferSpec(buffer.name, buffer.dtype.name, buffer.shape, buffer.rows)

    return tuple(spec(buffer) for buffer in program.arguments if buffer.scope in scopes)
