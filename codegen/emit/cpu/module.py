"""Loop IR to LLVM IR text.

    <name>             calls the nests in order
    <name>_prepare     calls the prepare nests, if there is PREPARED memory
    <name>.nest        the only nest; its buffers are parameters, so that LLVM knows them as distinct
    <name>.nest.<hash> one of several nests: a module for each of them, so that candidates share what they have in common
                       (nest_part.py)
    <name>.nests       the addresses of several nests: a module of its own, the only one that tells which nests a candidate has.
                       So candidates share the module that calls nests, too

Threads are started by parallel.py, statements are written by emit/statements.py. LLVM is left with instruction selection,
register allocation and peephole work: common subexpressions, invariant code and register tiles are right in the text already,
and no LLVM pass vectorizes or unrolls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....targets.target import Target
from ...debug_info.metadata import DebugText
from ...ir.facts import FactsKept, ranges
from ...ir.loop_ir import Buffer, LoopProgram, Scope, Store
from ...ir.loop_ir import statements as all_statements
from ...ir.memory_plan import MemoryPlan, plan_memory
from ...ir.nest_part import NestPart, part_of
from ..half import HALF_FUNCTIONS, needs_half_functions
from ..memory import SAFE, SAFE_BYTES, BufferPointer
from ..module_text import ModuleText
from ..text import FunctionText
from ..types import memory_literal, memory_type
from .parallel import RegionStatements, parameter

ENTRY = "ptr %arguments, ptr %prepared, ptr %workspace"


def emit(program: LoopProgram, target: Target, threads: int) -> str:
    """The LLVM IR of a program for `threads` threads (1: nothing of a threading runtime is used), as one module.

    The exported functions follow the calling convention of codegen.artifact, with memory laid out by codegen.ir.memory_plan.
    """
    return emit_together(*emit_parts(program, plan_memory(program, threads)), target).text()


def emit_together(module: ModuleText, parts: Sequence[NestPart], target: Target) -> ModuleText:
    """The exported functions and the nests that they call as one module."""
    for part in parts:
        _write_nest(module, part, target, "internal ")
    return _ended(module, target)


def emit_parts(program: LoopProgram, plan: MemoryPlan) -> tuple[ModuleText, list[NestPart]]:
    """The exported functions, without an end (`emit_together`, `emit_apart`), and the nests that they call."""
    module = ModuleText()
    main = module.symbol = plain_symbol(program.name)
    before = program.prepare if plan.prepared_bytes else ()
    parts = [part_of(program, nest, plan.threads, f"{main}.nest") for nest in (*before, *program.nests)]
    places: dict[str, int] = {}  # of several nests in the table
    if len(parts) > 1:
        parts = [replace(part, symbol=f"{part.symbol}.{part.digest}") for part in parts]
        symbols = dict.fromkeys(part.symbol for part in parts)
        places = {symbol: place for place, symbol in enumerate(symbols)} if len(symbols) > 1 else {}
    if before:
        _entry(module, program, plan, f"{main}_prepare", parts[: len(before)], places)
    _entry(module, program, plan, main, parts[len(before) :], places)
    module.nests = [part.symbol for part in parts[len(before) :]]
    return module, list({part.symbol: part for part in parts}.values())


def emit_apart(module: ModuleText, parts: Sequence[NestPart], target: Target) -> tuple[ModuleText, ModuleText]:
    """The exported functions as a module that calls nests of other modules, and the table through which it does."""
    name = nests_table(module.symbol)
    module.globals[name] = f"@{name} = external constant [{len(parts)} x ptr]"
    table_ = ModuleText()
    table_.declarations = {part.symbol: f"declare void @{part.symbol}()" for part in parts}
    addresses = ", ".join(f"ptr @{part.symbol}" for part in parts)
    table_.globals[name] = f"@{name} = constant [{len(parts)} x ptr] [{addresses}], align 8"
    return _ended(module, target), table_


def nests_table(main: str) -> str:
    """The symbol of the addresses of a program's nests."""
    return f"{main}.nests"


def emit_nest(part: NestPart, target: Target, debug: DebugText | None = None) -> ModuleText:
    """A nest as a module of its own."""
    module = ModuleText()
    module.debug = debug
    _write_nest(module, part, target, "")
    return _ended(module, target)


def _ended(module: ModuleText, target: Target) -> ModuleText:
    """Returns what every module ends with."""
    module.globals[SAFE] = f"{SAFE} = internal constant [{SAFE_BYTES} x i8] zeroinitializer, align 64"
    if needs_half_functions(target) and any(" half" in text for text in module.functions):
        module.functions.append(HALF_FUNCTIONS)
    more = f" {target.isa.attributes}" if target.isa.attributes else ""
    module.functions += [_ATTRIBUTES.format(more), "!0 = !{i32 1}"]
    return module


def plain_symbol(name: str) -> str:
    """A name that needs no quotes."""
    return "".join(c if (c.isalnum() and c.isascii()) or c == "_" else "_" for c in name)


_ATTRIBUTES = 'attributes #0 = {{ nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512"{} }}'


def table(buffer: Buffer, space: str = "") -> str:
    """A TABLE as a constant of the module, in an address space."""
    kind = memory_type(buffer.dtype)
    values = ", ".join(f"{kind} {memory_literal(value, buffer.dtype)}" for value in buffer.values)
    return f"{table_name(buffer)} = internal {space}constant [{buffer.elements} x {kind}] [{values}], align 64"


def table_name(buffer: Buffer) -> str:
    """Says how code names a TABLE."""
    return f"@table.{plain_symbol(buffer.name)}"


def _entry(
    module: ModuleText,
    program: LoopProgram,
    plan: MemoryPlan,
    symbol: str,
    parts: Sequence[NestPart],
    places: Mapping[str, int],
) -> None:
    """Writes an exported function, which finds the buffers and calls the nests, each by its place in the table, if any."""
    lines: list[str] = []
    names = {buffer.name: f"%p{i}" for i, buffer in enumerate((*program.arguments, *program.globals))}
    used = {buffer.name for part in parts for buffer in part.buffers}
    for slot, buffer in enumerate(program.arguments):
        if buffer.name in used:
            lines.append(f"  %slot{slot} = getelementptr ptr, ptr %arguments, i64 {slot}")
            lines.append(f"  {names[buffer.name]} = load ptr, ptr %slot{slot}, align 8")
    for buffer in program.globals:
        if buffer.scope in (Scope.PREPARED, Scope.WORKSPACE):
            offset = (plan.prepared | plan.workspace)[buffer.name]
            lines.append(f"  {names[buffer.name]} = getelementptr i8, ptr %{buffer.scope.value}, i64 {offset}")
    lines.append(f"  %scratch = getelementptr i8, ptr %workspace, i64 {plan.shared_bytes}")
    for number, part in enumerate(parts):
        arguments = ", ".join([*(f"ptr {names[b.name]}" for b in part.buffers), "ptr %scratch"])
        callee = f"@{part.symbol}"
        if part.symbol in places:
            callee = f"%nest{number}"
            entry = f"getelementptr (ptr, ptr @{nests_table(module.symbol)}, i64 {places[part.symbol]})"
            lines.append(f"  {callee} = load ptr, ptr {entry}, align 8")
        lines.append(f"  call void {callee}({arguments})")
    body = "\n".join(lines)
    module.functions.append(f"define void @{symbol}({ENTRY}) #0 {{\nentry:\n{body}\n  ret void\n}}")


def _write_nest(module: ModuleText, part: NestPart, target: Target, linkage: str) -> None:
    """Writes the function of a nest, and those that it calls."""
    kept = FactsKept()
    known, bounds = kept.of(part.nest.body), ranges(part.nest.body)
    names = {buffer.name: f"%p{i}" for i, buffer in enumerate(part.buffers)}
    parameters = [parameter(b, names[b.name], known) for b in part.buffers] + ["ptr noalias align 64 %scratch"]
    head = f"({', '.join(parameters)}) #0 {{\n"
    call = f"({', '.join([*(f'ptr {name}' for name in names.values()), 'ptr %scratch'])})"
    for table_ in part.tables:
        module.globals[table_.name] = table(table_)

    def write(name: str, streaming: bool, linkage: str) -> None:
        text = FunctionText()
        statements = RegionStatements(text, module, target, "%scratch", name, part.threads, part.private_bytes)
        statements.streaming, statements.known, statements.at.ranges = streaming, kept, bounds
        for buffer in part.tables:
            statements.at.places[buffer.name] = BufferPointer(buffer, table_name(buffer))
        for buffer in part.buffers:
            statements.at.places[buffer.name] = BufferPointer(buffer, names[buffer.name])
        statements.emit(part.nest.body)
        statements.finish()
        begin = f"define {linkage}void @{name}({', '.join(parameters)}) #0{statements.attribute} {{\n"
        module.functions.append(f"{begin}{text.text()}\n  ret void{text.place}\n}}")

    symbol = part.symbol
    nodes = all_statements(part.nest.body)
    streamed = sorted({node.buffer for node in nodes if isinstance(node, Store) and node.streaming})
    if streamed:
        write(f"{symbol}.streaming", True, "internal ")
        write(f"{symbol}.ordinary", False, "internal ")
        bases = [names[name] for name in streamed if name in names]
        module.functions.append(f"define {linkage}void @{symbol}{head}{_choose(symbol, call, bases, target)}\n}}")
    else:
        write(symbol, False, linkage)


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
