"""Loop IR to LLVM IR text.

    <name>             calls the nests in order
    <name>_prepare     calls the prepare nests, if there is PREPARED memory
    <name>_repeat      calls <name> `count` times: the loop that is timed
    <name>.nest<i>     one nest; its buffers are parameters, so that LLVM knows them as distinct

Threads are started by emit_parallel.py, statements are written by emit_statements.py. LLVM is left with instruction selection,
register allocation and peephole work: common subexpressions, invariant code and register tiles are right in the text already,
and no LLVM pass vectorizes or unrolls.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..targets.target import Target
from .emit_facts import facts
from .emit_half import HALF_FUNCTIONS, needs_half_functions
from .emit_memory import SAFE, SAFE_BYTES, Place
from .emit_parallel import RegionStatements, parameter
from .emit_text import FunctionText
from .emit_types import memory_literal, memory_type
from .emit_values import ModuleText
from .loop_ir import Buffer, LoopProgram, Nest, Scope, Store
from .loop_ir import statements as all_statements
from .memory_plan import MemoryPlan, plan_memory

ENTRY = "ptr %arguments, ptr %prepared, ptr %workspace"


def emit(program: LoopProgram, target: Target, threads: int) -> str:
    """The LLVM IR of a program for `threads` threads (1: nothing of a threading runtime is used).

    The exported functions follow the calling convention of codegen.artifact, with memory laid out by codegen.memory_plan.
    """
    return emit_module(program, target, threads).text()


def emit_module(program: LoopProgram, target: Target, threads: int) -> ModuleText:
    """As `emit`, with the names of the runtime symbols that are used."""
    module = ModuleText()
    plan = plan_memory(program, threads)
    for buffer in program.globals:
        if buffer.scope is Scope.TABLE:
            module.globals[buffer.name] = table(buffer)
    module.globals[SAFE] = f"{SAFE} = internal constant [{SAFE_BYTES} x i8] zeroinitializer, align 64"
    main = module.symbol = plain_symbol(program.name)
    if plan.prepared_bytes:
        _entry(module, program, plan, target, f"{main}_prepare", program.prepare, f"{main}.prepare")
    _entry(module, program, plan, target, main, program.nests, f"{main}.nest")
    module.nests = [f"{main}.nest{number}" for number in range(len(program.nests))]
    if needs_half_functions(target) and any(" half" in text for text in module.functions):
        module.functions.append(HALF_FUNCTIONS)
    module.functions += [_repeat(main), _ATTRIBUTES, "!0 = !{i32 1}"]
    return module


def plain_symbol(name: str) -> str:
    """A name that needs no quotes."""
    return "".join(c if (c.isalnum() and c.isascii()) or c == "_" else "_" for c in name)


_ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }'


def _repeat(main: str) -> str:
    """The assembly line without text may read and write all memory, as far as LLVM knows, so no call can be left out."""
    return f"""define void @{main}_repeat({ENTRY}, i64 %count) #0 {{
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @{main}(ptr %arguments, ptr %prepared, ptr %workspace)
  call void asm sideeffect "", "~{{memory}}"()
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


def table(buffer: Buffer) -> str:
    """A TABLE as a constant of the module."""
    kind = memory_type(buffer.dtype)
    values = ", ".join(f"{kind} {memory_literal(value, buffer.dtype)}" for value in buffer.values)
    return f"{table_name(buffer)} = internal constant [{buffer.elements} x {kind}] [{values}], align 64"


def table_name(buffer: Buffer) -> str:
    """How code names a TABLE."""
    return f"@table.{plain_symbol(buffer.name)}"


def _entry(
    module: ModuleText,
    program: LoopProgram,
    plan: MemoryPlan,
    target: Target,
    symbol: str,
    nests: Sequence[Nest],
    part: str,
) -> None:
    """An exported function: it finds the buffers and calls the nests."""
    lines: list[str] = []
    names = {buffer.name: f"%p{i}" for i, buffer in enumerate((*program.arguments, *program.globals))}
    used = frozenset[str]().union(*(facts(nest.body).buffers for nest in nests)) if nests else frozenset[str]()
    for slot, buffer in enumerate(program.arguments):
        if buffer.name in used:
            lines.append(f"  %slot{slot} = getelementptr ptr, ptr %arguments, i64 {slot}")
            lines.append(f"  {names[buffer.name]} = load ptr, ptr %slot{slot}, align 8")
    for buffer in program.globals:
        if buffer.scope in (Scope.PREPARED, Scope.WORKSPACE):
            offset = (plan.prepared | plan.workspace)[buffer.name]
            lines.append(f"  {names[buffer.name]} = getelementptr i8, ptr %{buffer.scope.value}, i64 {offset}")
    lines.append(f"  %scratch = getelementptr i8, ptr %workspace, i64 {plan.shared_bytes}")
    for number, nest in enumerate(nests):
        lines.append(_nest(module, program, plan, target, f"{part}{number}", nest, names))
    body = "\n".join(lines)
    module.functions.append(f"define void @{symbol}({ENTRY}) #0 {{\nentry:\n{body}\n  ret void\n}}")


def _nest(
    module: ModuleText,
    program: LoopProgram,
    plan: MemoryPlan,
    target: Target,
    symbol: str,
    nest: Nest,
    names: dict[str, str],
) -> str:
    """Writes the function of a nest and returns the line that calls it."""
    known = facts(nest.body)
    buffers = [
        b for b in (*program.arguments, *program.globals) if b.scope is not Scope.TABLE and b.name in known.buffers
    ]
    parameters = [parameter(b, names[b.name], known) for b in buffers] + ["ptr noalias align 64 %scratch"]
    head = f"({', '.join(parameters)}) #0 {{\n"
    call = f"({', '.join([*(f'ptr {names[b.name]}' for b in buffers), 'ptr %scratch'])})"

    def write(name: str, streaming: bool) -> None:
        text = FunctionText()
        statements = RegionStatements(text, module, target, "%scratch", name, plan.threads, plan.private_bytes)
        statements.streaming = streaming
        for buffer in program.globals:
            if buffer.scope is Scope.TABLE:
                statements.at.places[buffer.name] = Place(buffer, table_name(buffer))
        for buffer in buffers:
            statements.at.places[buffer.name] = Place(buffer, names[buffer.name])
        statements.emit(nest.body)
        statements.finish()
        module.functions.append(f"define internal void @{name}{head}{text.text()}\n  ret void\n}}")

    streamed = sorted({node.buffer for node in all_statements(nest.body) if isinstance(node, Store) and node.streaming})
    if streamed:
        write(f"{symbol}.streaming", True)
        write(f"{symbol}.ordinary", False)
        bases = [names[name] for name in streamed if name in names]
        module.functions.append(f"define internal void @{symbol}{head}{_choose(symbol, call, bases, target)}\n}}")
    else:
        write(symbol, False)
    return f"  call void @{symbol}{call}"


def _choose(symbol: str, call: str, bases: list[str], target: Target) -> str:
    """Streaming stores have to be aligned; where the caller's memory is not, the same nest runs with ordinary ones."""
    lines = ["entry:"]
    total = "0"
    for number, base in enumerate(bases):
        lines.append(f"  %i{number} = ptrtoint ptr {base} to i64")
        lines.append(f"  %o{number} = or i64 {total}, %i{number}")
        total = f"%o{number}"
    lines += [
        f"  %low = and i64 {total}, {target.vector_bits // 8 - 1}",
        "  %aligned = icmp eq i64 %low, 0",
        "  br i1 %aligned, label %fast, label %any",
        "fast:",
        f"  call void @{symbol}.streaming{call}",
        "  ret void",
        "any:",
        f"  call void @{symbol}.ordinary{call}",
        "  ret void",
    ]
    return "\n".join(lines)
