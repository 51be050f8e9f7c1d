"""The caller of a model's kernels as LLVM text: a loop over a constant table of calls.

Straight-line code would take LLVM time for every call; a table takes none, and a call through it costs some nanoseconds. What
each function does stands in codegen/artifact.py.

    calls    {kernel, its prepare function or null, prepared, workspace, first slot, number of slots} for each call
    slots    where the arguments of all calls are (calls.py)
    copies   {source, target, bytes}
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.artifact import entry_name
from ...codegen.emit.cpu.module import ENTRY, repeat
from .calls import Call, CallPlan, Copy

_CALL = "{ ptr, ptr, i64, i64, i64, i64 }"
_COPY = "{ i64, i64, i64 }"


def caller_text(symbol: str, plan: CallPlan) -> str:
    """The module of a model's caller."""
    kernels = [entry_name(symbol, number) for number in range(len(plan.kernels))]
    prepares = [f"{name}_prepare" if a.prepared_bytes else "" for name, a in zip(kernels, plan.kernels, strict=True)]
    most = max(len(call.slots) for call in plan.calls)
    parts = [
        *(f"declare void @{name}({ENTRY})" for name in (*kernels, *filter(None, prepares))),
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        *_tables(plan, kernels, prepares),
        _ADDRESS,
        _BLOCK,
        _run(symbol, plan, most),
        repeat(symbol),
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

    def of_copy(copy: Copy) -> str:
        return f"{_COPY} {{ {_words((copy.source, copy.target, copy.bytes))} }}"

    calls: list[str] = []
    slots: list[int] = []
    for call in plan.calls:
        calls.append(of_call(call, len(slots)))
        slots += call.slots
    return [
        _table("calls", _CALL, calls),
        _table("slots", "i64", [f"i64 {slot}" for slot in slots]),
        _table("copies", _COPY, [of_copy(copy) for copy in plan.copies]),
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


def _loop(count: int, most: int, function: int) -> str:
    """A loop over the calls: it fills %block and calls the function in this place of a call's row, if there is one."""
    return f"""entry:
  %block = alloca [{max(1, most)} x ptr], align 16
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %after ]
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
  %next = add nuw nsw i64 %n, 1
  %more = icmp ult i64 %next, {count}
  br i1 %more, label %loop, label %last
last:"""


def _prepare(symbol: str, plan: CallPlan, most: int) -> str:
    return f"define void @{symbol}_prepare({ENTRY}) #0 {{\n{_loop(len(plan.calls), most, 1)}\n  ret void\n}}"


def _run(symbol: str, plan: CallPlan, most: int) -> str:
    copies = f"""
  br i1 {"true" if plan.copies else "false"}, label %copy, label %done
copy:
  %k = phi i64 [ 0, %last ], [ %k.next, %copy ]
  %source.at = getelementptr {_COPY}, ptr @copies, i64 %k, i32 0
  %source.slot = load i64, ptr %source.at, align 8
  %source = call ptr @address(ptr %arguments, ptr %workspace, i64 %source.slot)
  %target.at = getelementptr {_COPY}, ptr @copies, i64 %k, i32 1
  %target.slot = load i64, ptr %target.at, align 8
  %target = call ptr @address(ptr %arguments, ptr %workspace, i64 %target.slot)
  %bytes.at = getelementptr {_COPY}, ptr @copies, i64 %k, i32 2
  %bytes = load i64, ptr %bytes.at, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %k.next = add nuw nsw i64 %k, 1
  %k.more = icmp ult i64 %k.next, {len(plan.copies)}
  br i1 %k.more, label %copy, label %done
done:
  ret void"""
    return f"define void @{symbol}({ENTRY}) #0 {{\n{_loop(len(plan.calls), most, 0)}{copies}\n}}"
