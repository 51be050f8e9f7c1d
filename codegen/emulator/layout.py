"""What the emulated kernels and the emulator share in memory, and the shorthand in which the emulator's own IR is written.

The runtime (scheduler.py, checks.py) is LLVM IR text, so that nobody needs a C compiler. Two shorthands keep
it readable; a field's type and place come from STRUCTS:

    %v = get thread.status %t        a load of that field of the struct at %t
    put %v thread.status %t          a store to it
"""

from __future__ import annotations

import re

# field -> LLVM type, in order of memory. runtime/devices/emulator.py mirrors `launch` and `range`.
STRUCTS: dict[str, dict[str, str]] = {
    "launch": {
        "grid_x": "i32", "grid_y": "i32", "grid_z": "i32",
        "block_x": "i32", "block_y": "i32", "block_z": "i32",
        "count": "i32",  # threads of a block
        "ranges_count": "i32",  # arguments; the range of shared memory stands behind them
        "arguments": "ptr",
        "ranges": "ptr",
        "threads": "ptr",
        "warps": "ptr",  # i32 for each warp: when it synchronised last
        "order": "ptr",  # i32 for each thread: the order of the sweep
        "shared": "ptr",
        "shared_bytes": "i64",
        "random": "i64",  # state of the generator; 0: threads run in order
        "first_block": "i64", "block_stride": "i64",  # blocks run in the order first + n * stride modulo their number
        "block": "i64",  # linear index of the block that runs
        "ctaid_x": "i32", "ctaid_y": "i32", "ctaid_z": "i32",
        "now": "i32",  # counts synchronisations; never goes back
        "launch_start": "i32", "block_start": "i32", "block_sync": "i32",  # values of `now`
        "error": "i32", "error_site": "i32", "error_thread": "i32", "error_other": "i32", "error_other_site": "i32",
        "error_where": "i32",
        "shift": "i32",  # a record of races covers 1 << shift bytes
        "lanes": "i32", "launch_pad": "i32",  # threads of a warp
        "error_block": "i64", "error_address": "i64", "error_size": "i64",
    },
    "thread": {
        "launch": "ptr", "handle": "ptr",
        "status": "i32", "site": "i32",
        "tid": "i32", "x": "i32", "y": "i32", "z": "i32",
        "mask": "i64",
        "op": "i32", "b": "i32", "c": "i32", "value": "i32", "result": "i32", "groups": "i32",
        "head": "ptr", "tail": "ptr",  # copies that are under way
    },
    "range": {"start": "i64", "end": "i64", "shadow": "ptr", "writable": "i32", "kind": "i32"},
    # who touched a byte last, when, and where in the code
    "shadow": {"writer": "i32", "written": "i32", "write_site": "i32", "read_site": "i32",
               "reader": "i32", "read": "i32", "reader_2": "i32", "read_2": "i32"},
    "copy": {"next": "ptr", "to": "ptr", "source": "ptr", "size": "i32", "real": "i32", "site": "i32", "group": "i32",
             "where": "i32", "pad": "i32"},
}  # fmt: skip

READY, AT_BARRIER, AT_WARP, DONE = 0, 1, 2, 3  # thread.status
READ, WRITE, ATOMIC = 0, 1, 2
SHARED, ANYWHERE = -1, -2  # instead of an argument's number
PRIVATE = -3
UP, DOWN, BUTTERFLY, INDEX, WARP_BARRIER, PERMUTE = 0, 1, 2, 3, 4, 5  # thread.op

OUTSIDE, MISALIGNED, RACE, DIVERGED, STUCK, READ_ONLY, ABSENT_LANE = 1, 2, 3, 4, 5, 6, 7  # launch.error

_GET = re.compile(r"^(\s*)(%[\w.]+) = get (\w+)\.(\w+) (%[\w.]+)$", re.MULTILINE)
_PUT = re.compile(r"^(\s*)put (\S+) (\w+)\.(\w+) (%[\w.]+)$", re.MULTILINE)


def expand(text: str) -> str:
    """LLVM IR of text in the shorthand above."""
    stores = 0

    def place(struct: str, field: str, pointer: str) -> tuple[str, str]:
        fields = STRUCTS[struct]
        return fields[field], f"getelementptr inbounds %{struct}, ptr {pointer}, i32 0, i32 {list(fields).index(field)}"

    def get(match: re.Match[str]) -> str:
        space, name, struct, field, pointer = match.groups()
        kind, where = place(struct, field, pointer)
        return f"{space}{name}.in = {where}\n{space}{name} = load {kind}, ptr {name}.in"

    def put(match: re.Match[str]) -> str:
        nonlocal stores
        stores += 1
        space, value, struct, field, pointer = match.groups()
        kind, where = place(struct, field, pointer)
        return f"{space}%put.{stores} = {where}\n{space}store {kind} {value}, ptr %put.{stores}"

    return _PUT.sub(put, _GET.sub(get, text))


def struct_bytes(name: str) -> int:
    """The size of a struct; fields are ordered so that there are no holes, which a test holds."""
    return sum(4 if kind == "i32" else 8 for kind in STRUCTS[name].values())


def struct_types() -> str:
    """The definitions of the structs."""
    return "".join(f"%{name} = type {{ {', '.join(fields.values())} }}\n" for name, fields in STRUCTS.items())
