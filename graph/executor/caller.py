"""The caller of a model's kernels as LLVM text: a loop over a constant table of calls.

Straight-line code would take LLVM time for every call; a table takes none, and a call through it costs some nanoseconds. What
each function does stands in codegen/artifact.py.

    calls    {kernel, its prepare function or null, prepared, workspace, first slot, number of slots} for each call
    slots    where the arguments of all calls are (calls.py)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from ...codegen.artifact import entry_name
from ...codegen.emit.cpu.module import ENTRY
from ...runtime.devices.cpu.model_team import TEAM
from .calls import Call, CallPlan, Copy

_CALL = "{ ptr, ptr, i64, i64, i64, i64 }"
_FUNCTION, _PREPARE = 0, 1  # places in a row
_MONOTONIC = 1  # CLOCK_MONOTONIC of Linux


def caller_text(symbol: str, plan: CallPlan, threads: int) -> str:
    """The module of a model's caller. `threads`: of the team that runs it; 1 where no kernel has parallel regions."""
    kernels = [entry_name(symbol, number) for number in range(len(plan.kernels))]
    prepares = [f"{name}_prepare" if a.prepared_bytes else "" for name, a in zip(kernels, plan.kernels, strict=True)]
    most = max(len(call.slots) for call in plan.calls)
    parts = [
        *(f"declare void @{name}({ENTRY})" for name in (*kernels, *filter(None, prepares))),
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        f"declare void @{TEAM}(ptr, ptr, i32)",
        *_tables(plan, kernels, prepares),
        _ADDRESS,
        _BLOCK,
        _NOW,
        _run(symbol, plan, most, timed=False, threads=threads),
        _run(symbol, plan, most, timed=True, threads=threads),
        "attributes #0 = { nounwind }",
    ]
    if plan.prepared_bytes:
        parts.append(_prepare(symbol, plan, most))
    return "\n".join(parts)


def _tables(plan: CallPlan, kernels: Sequence[str], prepares: Sequence[str]) -> list[str]:
    def of_call(call: Call, first: int) -> str:
        prepare = f"@{prepares[call.kernel]}" if call.prepares else "null"
        numbers = (call.prepared, call.workspace, first, len(call.slots))
        return f"{_CALL} {{ ptr @{kernels[call.kernel]}, ptr {prepare}, {_words(numbers)} }}"

    calls: list[str] = []
    slots: list[int] = []
    for call in plan.calls:
        calls.append(of_call(call, len(slots)))
        slots += call.slots
    return [
        _table("calls", _CALL, calls),
        _table("slots", "i64", [f"i64 {slot}" for slot in slots]),
    ]


def _table(name: str, kind: str, rows: Sequence[str]) -> str:
    return f"@{name} = internal constant [{len(rows)} x {kind}] [{', '.join(rows)}], align 64"


def _words(numbers: Sequence[int]) -> str:
    return ", ".join(f"i64 {number}" for number in numbers)


# The address of a slot.
_ADDRESS = """define internal ptr @address(ptr %arguments, ptr %workspace, i64 %slot) alwaysinline #0 {
entry:
  %odd = trunc i64 %slot to i1
  br i1 %odd, label %given, label %own
given:
  %number = lshr i64 %slot, 1
  %at = getelementptr ptr, ptr %arguments, i64 %number
  %argument = load ptr, ptr %at, align 8
  ret ptr %argument
own:
  %memory = getelementptr i8, ptr %workspace, i64 %slot
  ret ptr %memory
}"""

# Fills the argument block of a call.
_BLOCK = f"""define internal void @fill(ptr %block, ptr %call, ptr %arguments, ptr %workspace) alwaysinline #0 {{
entry:
  %first.at = getelementptr {_CALL}, ptr %call, i64 0, i32 4
  %first = load i64, ptr %first.at, align 8
  %count.at = getelementptr {_CALL}, ptr %call, i64 0, i32 5
  %count = load i64, ptr %count.at, align 8
  %slots = getelementptr i64, ptr @slots, i64 %first
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %slot.at = getelementptr i64, ptr %slots, i64 %i
  %slot = load i64, ptr %slot.at, align 8
  %place = call ptr @address(ptr %arguments, ptr %workspace, i64 %slot)
  %entry.at = getelementptr ptr, ptr %block, i64 %i
  store ptr %place, ptr %entry.at, align 8
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


# The time of a clock that no one sets, in nanoseconds.
_NOW = f"""declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() #0 {{
entry:
  %time = alloca {{ i64, i64 }}, align 8
  %failed = call i32 @clock_gettime(i32 {_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest.at = getelementptr {{ i64, i64 }}, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %rest.at, align 8
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}}"""


def _prepare(symbol: str, plan: CallPlan, most: int) -> str:
    loop = _loop(len(plan.calls), most, _PREPARE, timed=False)
    return f"define void @{symbol}_prepare({ENTRY}) #0 {{\n{loop}\n  ret void\n}}"


def _run(symbol: str, plan: CallPlan, most: int, timed: bool, threads: int) -> str:
    """The entry, or the one that notes the time of each call. With threads: inside of one team of theirs."""
    loop = _loop(len(plan.calls), most, _FUNCTION, timed)
    body = "\n".join([loop, *map(_copy, plan.copies, count()), *_stamp("copies", len(plan.calls), timed), "  ret void"])
    name, parameters = (f"{symbol}_timed", f"{ENTRY}, ptr %times") if timed else (symbol, ENTRY)
    if threads == 1:
        return f"define void @{name}({parameters}) #0 {{\n{body}\n}}"
    given = parameters.replace("ptr ", "").split(", ")
    unpacked = [f"  {one} = load ptr, ptr %given{n}, align 8" for n, one in enumerate(given)]
    places = [f"  %given{n} = getelementptr ptr, ptr %given, i64 {n}" for n in range(len(given))]
    stores = [f"  store ptr {one}, ptr %given{n}, align 8" for n, one in enumerate(given)]
    entry, member = "\n".join([*places, *stores]), "\n".join([*places, *unpacked])
    return f"""define internal void @{name}.all({parameters}) #0 {{
{body}
}}
define internal void @{name}.member(ptr %given) #0 {{
{member}
  call void @{name}.all({parameters})
  ret void
}}
define void @{name}({parameters}) #0 {{
  %given = alloca [{len(given)} x ptr], align 8
{entry}
  call void @{TEAM}(ptr @{name}.member, ptr %given, i32 {threads})
  ret void
}}"""


def _loop(calls: int, most: int, function: int, timed: bool) -> str:
    """A loop over the calls: it fills %block and calls the function in this place of a call's row, if there is one."""
    clock = "\n  %start = call i64 @now()" if timed else ""
    then = "\n  %then = phi i64 [ %start, %entry ], [ %now.call, %after ]" if timed else ""
    return f"""entry:
  %block = alloca [{max(1, most)} x ptr], align 16{clock}
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %after ]{then}
  %call = getelementptr {_CALL}, ptr @calls, i64 %n
  %function.at = getelementptr {_CALL}, ptr %call, i64 0, i32 {function}
  %function = load ptr, ptr %function.at, align 8
  %is = icmp ne ptr %function, null
  br i1 %is, label %do, label %after
do:
  call void @fill(ptr %block, ptr %call, ptr %arguments, ptr %workspace)
  %kept.at = getelementptr {_CALL}, ptr %call, i64 0, i32 2
  %kept.offset = load i64, ptr %kept.at, align 8
  %kept = getelementptr i8, ptr %prepared, i64 %kept.offset
  %own.at = getelementptr {_CALL}, ptr %call, i64 0, i32 3
  %own.offset = load i64, ptr %own.at, align 8
  %own = getelementptr i8, ptr %workspace, i64 %own.offset
  call void %function(ptr %block, ptr %kept, ptr %own)
  br label %after
after:
{chr(10).join(_stamp("call", "%n", timed))}
  %next = add nuw nsw i64 %n, 1
  %more = icmp ult i64 %next, {calls}
  br i1 %more, label %loop, label %last
last:"""


def _stamp(name: str, number: int | str, timed: bool) -> list[str]:
    """Notes the time since the stamp before, as time number `number`."""
    if not timed:
        return []
    before = "%then" if name == "call" else "%now.call"
    return [
        f"  %now.{name} = call i64 @now()",
        f"  %spent.{name} = sub i64 %now.{name}, {before}",
        f"  %time.{name} = getelementptr i64, ptr %times, i64 {number}",
        f"  store i64 %spent.{name}, ptr %time.{name}, align 8",
    ]


def _copy(copy: Copy, number: int) -> str:
    return f"""  %source{number} = call ptr @address(ptr %arguments, ptr %workspace, i64 {copy.source})
  %target{number} = call ptr @address(ptr %arguments, ptr %workspace, i64 {copy.target})
  call void @llvm.memcpy.p0.p0.i64(ptr %target{number}, ptr %source{number}, i64 {copy.bytes}, i1 false)"""
