"""GPUs: loop IR to LLVM IR to what a driver or the emulator takes, as the backend describes it (targets/emission.py).

Each nest is a kernel; all kernels of a program take the same parameters: its arguments (inputs, constants, outputs), then
`prepared` and `workspace`, in which buffers lie where codegen.ir.memory_plan puts them. Launches: codegen.artifact.

LLVM's code generator ends the process on what it cannot select. So only operations known to select are emitted: no llvm.exp,
log, pow, sin, ... (codegen.math.functions writes them out), no prefetch, no masked loads and stores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from ...common.debug import DebugLevel, show
from ...common.errors import TargetError
from ...targets.emission import Emission
from ...targets.target import Target
from ..artifact import Artifact, Launch
from ..debug_info.places import DebugSource
from ..emit.cpu.module import plain_symbol, table, table_name
from ..emit.gpu.narrow import is_narrow
from ..emit.gpu.statements import GpuStatements
from ..emit.memory import BufferPointer
from ..emit.module_text import ModuleText
from ..emit.text import FunctionText
from ..ir.facts import facts
from ..ir.loop_ir import Buffer, LoopProgram, Nest, Scope
from ..ir.memory_plan import MemoryPlan, plan_memory
from ..ir.printing import print_loops
from ..passes.run import Pass, run_passes
from .cpu import Compiled, builder_version, parse_module, specs

_LAYOUT = ""  # no name of a global
ALIGNMENT = 16  # of every array that a kernel is given
LLVM_PASSES = ("always_inliner", "sroa", "instruction_combine", "simplify_cfg")


def emit_kernels(program: LoopProgram, target: Target) -> tuple[ModuleText, tuple[Launch, ...], tuple[Launch, ...]]:
    """The LLVM IR of a program, its launches, and those that prepare its constants."""
    module = ModuleText()
    plan = plan_memory(program, 1)
    if target.emission.layout:
        module.globals[_LAYOUT] = f'target datalayout = "{target.emission.layout}"'
    for buffer in program.globals:
        if buffer.scope is Scope.TABLE:
            module.globals[buffer.name] = table(buffer, target.emission.space("table"))
    symbol = module.symbol = plain_symbol(program.name)
    prepare = tuple(
        _kernel(module, program, plan, target, f"{symbol}_prepare{n}", x) for n, x in enumerate(program.prepare)
    )
    launches = tuple(_kernel(module, program, plan, target, f"{symbol}_{n}", x) for n, x in enumerate(program.nests))
    return module, launches, prepare


def _kernel(
    module: ModuleText, program: LoopProgram, plan: MemoryPlan, target: Target, symbol: str, nest: Nest
) -> Launch:
    """Writes one kernel."""
    known, text, emission = facts(nest.body), FunctionText(), target.emission
    statements = GpuStatements(text, module, target)
    statements.start(nest, is_narrow(nest, (*program.arguments, *program.globals)))
    parameters, pointer = [], emission.pointer("global")

    def parameter(name: str, written: bool) -> str:
        return f"{pointer} noalias {'' if written else 'readonly '}align {ALIGNMENT} {name}"

    for number, buffer in enumerate(program.arguments):
        parameters.append(parameter(f"%p{number}", buffer.name in known.writes))
        statements.at.places[buffer.name] = BufferPointer(buffer, f"%p{number}", pointer)
    writes = {b.scope for b in program.globals if b.name in known.writes}
    own = (Scope.PREPARED, Scope.WORKSPACE)
    parameters += [parameter(f"%{scope.value}", scope in writes) for scope in own]
    for buffer in program.globals:
        statements.at.places[buffer.name] = _global(buffer, plan, text, emission)
    statements.emit(nest.body)
    attributes = emission.attributes.format(threads=nest.threads)
    head = f"define {emission.convention} void @{symbol}({', '.join(parameters)}) {attributes} {{"
    module.functions.append(f"{head}\n{text.text()}\n  ret void\n}}")
    return Launch(symbol, (nest.blocks,), (nest.threads,), statements.shared_bytes)


def _global(buffer: Buffer, plan: MemoryPlan, text: FunctionText, emission: Emission) -> BufferPointer:
    if buffer.scope is Scope.TABLE:
        return BufferPointer(buffer, table_name(buffer), emission.pointer("table"))
    base, pointer = f"%{buffer.scope.value}", emission.pointer("global")
    offset = (plan.prepared | plan.workspace)[buffer.name]
    if offset:
        base = text.pure(f"getelementptr i8, {pointer} {base}, i64 {offset}")
    return BufferPointer(buffer, base, pointer)


@lru_cache(maxsize=8)
def machine(target: Target) -> Any:
    """The LLVM target machine. Raises TargetError for an architecture that this LLVM does not know."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    known = llvm.Target.from_triple(target.triple)
    tm = known.create_target_machine(cpu=target.cpu, features="", opt=3)
    empty = llvm.parse_assembly("")
    empty.triple = target.triple
    if (unknown := target.emission.unknown) and unknown in tm.emit_assembly(empty):
        raise TargetError(
            f"this LLVM knows no {target.cpu}",
            found=f"LLVM {'.'.join(map(str, llvm.llvm_version_info))}",
            advice="update llvmlite, or compile for an older architecture, whose code newer devices run",
        )
    return tm


def compile_kernels(ir: str, target: Target, texts: bool = True) -> Compiled:
    """The code of kernels, the text that LLVM writes, and the optimized IR. `texts`: those too that are not the code itself.

    Raises InternalError with LLVM's message if the text is not valid IR, which is a defect of the emitter.
    """
    import llvmlite.binding as llvm

    tm = machine(target)
    started = time.perf_counter()
    module = parse_module(ir, target.triple, tm)
    parsed = time.perf_counter()
    builder = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    for name in LLVM_PASSES:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    optimized = time.perf_counter()
    is_text = target.emission.format == target.emission.text
    text = str(module) if texts else ""
    before_code = time.perf_counter()
    code = b"" if is_text else tm.emit_object(module)
    if texts and not is_text:  # a code generator leaves its own intrinsics in what it was given
        module = parse_module(text, target.triple, tm)
    assembly = tm.emit_assembly(module) if texts or is_text else ""
    seconds = {"parse": parsed - started, "optimize": optimized - parsed, "code": time.perf_counter() - before_code}
    return Compiled(code or assembly.encode(), assembly, text, seconds)


def assemble_kernels(
    program: LoopProgram,
    target: Target,
    _threads: int,
    passes: tuple[Pass, ...],
    texts: bool = False,
    _source: DebugSource | None = None,
    emulate: Callable[[str, Emission, Collection[str]], Compiled] | None = None,
) -> Artifact:
    """Loop IR as an Artifact. `texts` keeps "llvm", what LLVM writes, and the loop IR after all passes, as "barriers".

    passes: over the program, before it is written. `emulate`: makes of the LLVM IR an object for this machine, given the
    names of the kernels, which stands in the artifact instead then. How many threads a processor may run is nothing to a
    GPU; there is no debug information of its code yet.
    """
    started = time.perf_counter()
    passed = run_passes(program, passes)
    module, launches, prepare = emit_kernels(passed, target)
    ir = module.text()
    show(DebugLevel.LLVM, program.name, ir)
    emitted = time.perf_counter()
    real = compile_kernels(ir, target, texts) if texts or emulate is None else None
    show(DebugLevel.ASSEMBLY, program.name, real.asm if real is not None else "")
    made = real if emulate is None else emulate(ir, target.emission, [one.symbol for one in (*prepare, *launches)])
    assert made is not None
    plan = plan_memory(passed, 1)
    return Artifact(
        name=program.name,
        target=target.text,
        threads=1,
        format=target.emission.format if emulate is None else "emulated",
        code=made.code,
        symbol=module.symbol,
        inputs=specs(program, Scope.INPUT),
        constants=specs(program, Scope.CONSTANT),
        outputs=specs(program, Scope.OUTPUT),
        prepared_bytes=plan.prepared_bytes + plan.preparing_bytes,
        workspace_bytes=plan.shared_bytes,
        launches=launches,
        prepare_launches=prepare,
        builder=builder_version(),
        texts={"llvm": ir, target.emission.text: real.asm, "barriers": print_loops(passed)} if texts and real else {},
        seconds={"emit": emitted - started, **made.seconds},
    )
