"""GPU kernels on the CPU: the LLVM IR text that LLVM makes GPU code of becomes an object for this machine, for the emulator.

    text ──LLVM parses and prints it──▶ one instruction a line ──emulate_kernel──▶ coroutines ──+ our own IR──▶ object

The object exports, for each kernel, `void NAME(launch *)`, which runs one launch (see runtime/devices/emulator.py), and the
texts of its instructions, so that errors can show them. Address spaces are dropped, shared memory is
one block's at a time, special registers are fields. What no CPU does as a GPU does it (mma, TMA) is not known here yet: such
a kernel is refused with the instruction.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from functools import cache
from typing import Any

from ...common.errors import InternalError
from ...targets.emission import Emission
from ..backends.cpu import Compiled, parse_module
from .checks import CHECKS
from .copies import COPIES
from .coroutine import Coroutine, KernelText, Sites
from .layout import struct_types
from .scheduler import SCHEDULE
from .special import SPECIAL
from .warps import WAITING, WARPS

SITES, SHARED, GRAIN = "emulated_sites", "emulated_shared", "emulated_grain"  # exported beside the kernels
SHARED_BYTES = 256 << 10  # more than any GPU has
_FUNCTION = re.compile(r'^define .* @("[^"]*"|[-\w.$]+)\((.*)\)')
_SHARED = re.compile(r"^(@\S+) = .*addrspace\(3\) global \[0 x i8\]", re.MULTILINE)
_TABLE = re.compile(r"^(@\S+) = .*\bconstant (\[\d+ x [^\]]+\]) ")
_COROUTINES = """
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare ptr @llvm.coro.free(token, ptr)
declare void @llvm.coro.end(ptr, i1, token)
"""

_RUNTIME_CALLS = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @emu.launch(ptr, ptr)
declare ptr @emu.access(ptr, ptr, i64, i64, i32, i32, i32)
declare ptr @emu.object(ptr, ptr, i64, i64, i32, ptr, ptr)
declare ptr @emu.lanes(ptr, ptr, i64, i64, i64, i64, i32, i32, i32)
declare void @emu.copy(ptr, ptr, ptr, i32, i32, i32, i32, i32)
declare void @emu.copies.commit(ptr)
declare void @emu.copies.wait(ptr, i32)
declare void @emu.copies.complete(ptr, i32, i1)
"""
RUNTIME = tuple(re.findall(r"@(emu[\w.]*)", _RUNTIME_CALLS))  # what kernels call


def compile_emulated(ir: str, emission: Emission, kernels: Collection[str], texts: bool = False) -> Compiled:
    """The object file of kernels given as LLVM IR as a backend has it written; it is linked with `runtime_object()`.

    `kernels`: the names of the functions that are launched.

    Raises InternalError if the text is not valid IR, or has an instruction that the emulator does not know.
    """
    import llvmlite.binding as llvm

    tm, started = _machine(), time.perf_counter()
    text = emulated_module(ir, emission, kernels)
    rewritten = time.perf_counter()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise InternalError("the emulator made LLVM IR that is not valid", found=str(error)) from error
    module.triple = llvm.get_process_triple()
    module.data_layout = str(tm.target_data)
    parsed = time.perf_counter()
    # Coroutines are split, and nothing else: a kernel is compiled to run once or twice, which takes less than to make it fast.
    builder = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(speed_level=0))
    builder.getModulePassManager().run(module, builder)
    optimized = time.perf_counter()
    shown = str(module) if texts else ""
    code = _machine(0).emit_object(module)
    seconds = {"emulate": rewritten - started, "parse": parsed - rewritten, "optimize": optimized - parsed}
    return Compiled(code, "", shown, {**seconds, "code": time.perf_counter() - optimized})


@cache
def _machine(level: int = 1) -> Any:
    """This machine, all its features: what is emulated here runs here. `level`: of the code generator."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=level, reloc="pic", codemodel="default"
    )


@cache
def runtime_object() -> bytes:
    """The emulator's own functions, compiled once in a process: the scheduler, the checks, the copies."""
    import llvmlite.binding as llvm

    text = struct_types() + SCHEDULE + WARPS + CHECKS + COPIES
    for name in RUNTIME:
        text = re.sub(rf"define internal (\S+) (@{re.escape(name)})\(", r"define \1 \2(", text)
    tm = _machine()
    module = llvm.parse_assembly(text)
    module.verify()
    module.triple = llvm.get_process_triple()
    module.data_layout = str(tm.target_data)
    builder = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    code: bytes = tm.emit_object(module)
    return code


def emulated_module(ir: str, emission: Emission, kernels: Collection[str]) -> str:
    """The module for the CPU, as text."""
    printed = _printed(ir)
    shared = _SHARED.search(printed)
    lines = _neutral(printed).splitlines()
    tables = {match[1]: match[2] for match in map(_TABLE.match, lines) if match}
    sites, parts = Sites(), [struct_types()]
    at = 0
    while at < len(lines):
        line = lines[at]
        function = _FUNCTION.match(line)
        name = function[1].strip('"') if function else ""
        if function and name in kernels:
            end = lines.index("}", at)
            kernel = KernelText(name, _arguments(function[2], line), lines[at + 1 : end])
            parts.append(Coroutine(kernel, sites, shared[1] if shared else None, tables, emission).text())
            at = end
        elif not (line.startswith(("source_filename", "target ", "; ", "attributes ", "!", "declare ")) or not line):
            parts.append(_shared_memory(line) if shared and line.startswith(shared[1] + " =") else line)
        at += 1
    if shared is None:
        parts.append(_shared_memory(""))
    parts += [WAITING, SPECIAL, _COROUTINES, _RUNTIME_CALLS]
    text = "\n".join(parts)
    return text + _declarations(printed, text, emission) + _sites_text(sites)


def _printed(ir: str) -> str:
    """The module as LLVM prints it, each value and block with a name."""
    import llvmlite.binding as llvm

    module = parse_module(ir)
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_namer_pass()
    passes.run(module, llvm.create_pass_builder(_machine(), llvm.create_pipeline_tuning_options()))
    return str(module)


def _neutral(text: str) -> str:
    """Takes away address spaces, metadata, attribute groups and comments; `switch` in one line."""
    text = re.sub(r"addrspacecast \((ptr(?: addrspace\(\d+\))? [^()]*(?:\([^()]*\))?[^()]*) to ptr(?: addrspace\(\d+\))?\)",
                  lambda match: re.sub(r"^ptr(?: addrspace\(\d+\))? ", "", match[1]), text)  # fmt: skip
    text = re.sub(r",? addrspace\(\d+\)", "", text)
    text = re.sub(r"(@llvm\.[\w.]*?)\.p\d+(?=[.(\w])", r"\1.p0", text)
    text = re.sub(r"(@llvm\.masked\.\w+\.\w+)\.p\d+\(", r"\1.p0(", text)
    text = re.sub(r"(?m)^(\s+.*?) = addrspacecast ptr (.*) to ptr\b", r"\1 = bitcast ptr \2 to ptr", text)
    text = re.sub(r"(?m)(, !\w[\w.]* !\d+)+$", "", text)
    text = re.sub(r" #\d+\b", "", text)
    text = re.sub(r"(?m)\s+; preds = .*$", "", text)
    return re.sub(r"\[\n((?:\s+i\d+ .*\n)+)\s*\]", lambda match: "[ " + " ".join(match[1].split()) + " ]", text)


def _arguments(text: str, line: str) -> list[str]:
    names = []
    for part in filter(None, (one.strip() for one in re.split(r",(?![^(]*\))", text))):
        if not part.startswith("ptr"):
            raise InternalError("a kernel takes something that is no pointer", found=line)
        names.append(part.rsplit(" ", 1)[1])
    return names


def _shared_memory(line: str) -> str:
    name = line.partition(" =")[0] or "@emu.no.shared"
    return f"{name} = internal global [{SHARED_BYTES} x i8] zeroinitializer, align 128\n" + (
        f"define ptr @{SHARED}() {{\n  ret ptr {name}\n}}\n"
    )


def _sites_text(sites: Sites) -> str:
    content = "\n".join(sites.texts).encode() + b"\0"
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in content)
    return f'@emulated.sites = internal constant [{len(content)} x i8] c"{escaped}"\n' + (
        f"define ptr @{SITES}() {{\n  ret ptr @emulated.sites\n}}\n"
        f"define i32 @{GRAIN}() {{\n  ret i32 {sites.grain}\n}}\n"
    )


def _declarations(printed: str, text: str, emission: Emission) -> str:
    """Declarations that the kernels had and that are still needed, without address spaces."""
    wanted = []
    for line in _neutral(printed).splitlines():
        if line.startswith("declare "):
            name = line[line.index("@") : line.index("(", line.index("@"))]
            if (
                not name.startswith(f"@{emission.intrinsics}")
                and f"{name}(" in text
                and f"declare {line[8:]}" not in text
            ):
                known = re.search(rf"declare [^\n]*{re.escape(name)}\(", text)
                if known is None and line not in wanted:
                    wanted.append(line)
    return "\n".join(wanted) + "\n"
