"""A kernel's LLVM IR as a coroutine for the CPU: one GPU thread each, which suspends where it would wait for others.

The body stays what it is. What changes: arguments come from an array; `ret` is the final suspend; barriers and warp
collectives are suspend points (the block is cut there); special registers and asynchronous copies are calls into the
emulator; the pointer of each access is checked first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...common.errors import InternalError
from ...targets import emission as means
from ...targets.emission import Emission
from .layout import ANYWHERE, ATOMIC, BUTTERFLY, DOWN, INDEX, PERMUTE, PRIVATE, READ, SHARED, UP, WARP_BARRIER, WRITE
from .llvm_text import NAME, arguments_of, pointer_roots, size_of, split_top, typed
from .special import NUMBERS

_LABEL = re.compile(r'^("[^"]*"|[-\w.$]+):')
_CALL = re.compile(rf"^(?:({NAME}) = )?(?:tail |notail |musttail )?call .*?@(llvm\.[\w.]+)\(")
_SHUFFLES = {
    means.SHUFFLE_UP: UP, means.SHUFFLE_DOWN: DOWN, means.SHUFFLE_XOR: BUTTERFLY, means.SHUFFLE_INDEX: INDEX,
}  # fmt: skip
_EVERY_LANE = "-1"
_DROPPED = ("llvm.lifetime.", "llvm.assume", "llvm.experimental.noalias", "llvm.prefetch")


@dataclass
class KernelText:
    """A kernel as LLVM printed it: its name, the names of its (pointer) arguments, its lines."""

    name: str
    arguments: list[str]
    lines: list[str]


@dataclass
class Sites:
    """Places in the code that errors name, by number; `grain`: bytes of the smallest access, at most 8."""

    texts: list[str] = field(default_factory=list)
    grain: int = 8

    def add(self, instruction: str, size: int = 8) -> int:
        """The number of a new place, which accesses `size` bytes."""
        self.texts.append(instruction)
        self.grain = min(self.grain, size & -size)
        return len(self.texts) - 1


class Coroutine:
    """Rewrites one kernel; `text()` is the coroutine `@"emu.thread.NAME"`.

    `tables`: the constants of the module that kernels read, by name, and their types. `emission`: what its intrinsics mean.
    """

    def __init__(
        self, kernel: KernelText, sites: Sites, shared: str | None, tables: Mapping[str, str], emission: Emission
    ) -> None:
        self._emission = emission
        self._kernel, self._sites, self._shared = kernel, sites, shared
        self._numbers = {name: number for number, name in enumerate(kernel.arguments)}
        self._definitions = {**tables, **_definitions(kernel.lines)}
        self._allocas: list[str] = []
        self._out: list[str] = []
        self._last: dict[str, str] = {}  # label -> label of the last piece of that block
        self._label = ""
        self._count = 0

    def text(self) -> str:
        """The coroutine, as LLVM IR."""
        for line in self._kernel.lines:
            self._line(line.strip())
        body = "\n".join(self._out)
        for label, last in self._last.items():
            body = re.sub(rf"(\[ [^\[\]]*, )%{re.escape(label)} \]", rf"\g<1>%{last} ]", body)
        loads = "\n".join(
            f"  {name}.slot = getelementptr ptr, ptr %emu.arguments, i64 {number}\n  {name} = load ptr, ptr {name}.slot"
            for name, number in self._numbers.items()
        )
        first = next(match[1] for line in self._out if (match := _LABEL.match(line)))
        return _FRAME.format(
            name=self._kernel.name, allocas="\n".join(self._allocas), loads=loads, first=first, body=body
        )

    # ---- line by line

    def _line(self, line: str) -> None:
        if match := _LABEL.match(line):
            self._label = match[1]
            self._out.append(f"{match[1]}:")
        elif line == "ret void":
            self._emit("br label %emu.end")
        elif " = alloca " in line:
            self._allocas.append(f"  {line}")
        elif (match := re.match(rf"({NAME}) = load (.*)$", line)) or line.startswith("store "):
            self._access(line)
        elif " = atomicrmw " in line or line.startswith(("atomicrmw ", "cmpxchg ")):
            self._atomic(line)
        elif match := _CALL.match(line):
            self._call(line, match[1], match[2])
        elif line.startswith("fence"):
            pass  # threads take turns: all that one wrote the next one sees; a fence alone orders nothing else
        elif " asm " in line or line.startswith(("indirectbr", "callbr")) or " = va_arg" in line:
            raise _unknown(line)
        else:
            self._emit(line)

    def _emit(self, line: str) -> None:
        self._out.append(f"  {line}")

    def _new(self, stem: str) -> str:
        self._count += 1
        return f"%emu.{stem}.{self._count}"

    def _access(self, line: str) -> None:
        head, _, rest = line.partition(" = load ") if " = load " in line else ("", "", line.removeprefix("store "))
        rest = re.sub(r"^(?:atomic |volatile )+", "", rest)
        parts = split_top(rest)
        kind = parts[0] if head else typed(parts[0])[0]
        pointer = typed(parts[1].split(" syncscope")[0])[1]
        align = next((int(part.split()[1]) for part in parts[2:] if part.startswith("align")), 1)
        checked = self._checked(line, pointer, size_of(kind), align, READ if head else WRITE)
        self._emit(line.replace(f"ptr {pointer}, align", f"ptr {checked}, align"))

    def _atomic(self, line: str) -> None:
        rest = line.partition("atomicrmw ")[2]
        parts = split_top(rest)
        pointer = parts[0][parts[0].index("ptr ") + 4 :]
        size = size_of(typed(parts[1])[0])
        checked = self._checked(line, pointer, size, size, ATOMIC)
        self._emit(line.replace(f"ptr {pointer},", f"ptr {checked},", 1))

    def _where(self, pointer: str) -> tuple[int, str | None]:
        """Returns what a pointer points into: the number of an argument, SHARED or ANYWHERE; or an object, which is named."""
        roots = pointer_roots(pointer, self._definitions)
        if len(roots) == 1:
            (root,) = roots
            if root in self._numbers:
                return self._numbers[root], None
            if root == self._shared:
                return SHARED, None
            if root in self._definitions or root.startswith("@"):
                return ANYWHERE, root
        return ANYWHERE, None

    def _checked(self, line: str, pointer: str, size: int, align: int, mode: int) -> str:
        """The pointer of an access behind its check; an object of known size at a known place needs none."""
        where, inside = self._where(pointer)
        if inside is not None and pointer == inside:
            return pointer
        site, name = self._sites.add(line, size), self._new("p")
        common = f"ptr %emu.thread, ptr {pointer}, i64 {size}, i64 {align}, i32 {site}"
        if inside is None:
            self._emit(f"{name} = call ptr @emu.access({common}, i32 {where}, i32 {mode})")
            return name
        end = self._new("end")
        self._emit(f"{end} = {_end_of(inside, self._definitions)}")
        self._emit(f"{name} = call ptr @emu.object({common}, ptr {inside}, ptr {end})")
        return name

    # ---- calls

    def _call(self, line: str, result: str | None, name: str) -> None:
        short = name.removeprefix("llvm.")
        given = arguments_of(line)
        if name.startswith(_DROPPED):
            return
        meaning = self._emission.meanings.get(short, "")
        if meaning:
            self._meant(line, result, meaning, given)
        elif name.startswith(self._emission.intrinsics):
            raise _unknown(line)
        elif short.startswith("masked."):
            self._masked(line, short, given)
        elif short.startswith(("memcpy.", "memmove.", "memset.")):
            raise _unknown(line)
        else:
            self._emit(line)

    def _meant(self, line: str, result: str | None, meaning: str, given: list[tuple[str, str]]) -> None:
        """A call of an intrinsic of the backend's own."""
        assign, values = f"{result} = " if result else "", [value for _, value in given]
        if meaning in NUMBERS:
            self._emit(f"{assign}call i32 @emu.number.{meaning}(ptr %emu.thread)")
        elif meaning == means.BARRIER:
            self._suspend(f"call void @emu.wait.block(ptr %emu.thread, i32 {self._sites.add(line)})")
        elif meaning == means.WARP_BARRIER:
            self._wait_warp(line, WARP_BARRIER, values[0], "0", "0", "0")
        elif meaning in _SHUFFLES:
            mask, value, b, c = values
            self._shuffle(line, result, _SHUFFLES[meaning], given[1][0], (mask, value, b, c))
        elif meaning == means.PERMUTE:
            address, value = values
            self._shuffle(line, result, PERMUTE, given[1][0], (_EVERY_LANE, value, address, "0"))
        elif meaning.startswith(means.COPY):
            self._copy(line, int(meaning.split()[1]), values)
        elif meaning == means.COMMIT:
            self._emit("call void @emu.copies.commit(ptr %emu.thread)")
        elif meaning == means.WAIT:
            self._emit(f"call void @emu.copies.wait(ptr %emu.thread, i32 {values[0]})")
        elif meaning == means.WAIT_ALL:
            self._emit("call void @emu.copies.complete(ptr %emu.thread, i32 2147483647, i1 true)")
        elif meaning.startswith(means.FUNCTION):
            self._emit(f"{assign}call float @emu.function.{meaning.removeprefix(means.FUNCTION)}(float {values[0]})")
        else:
            raise _unknown(line)

    def _suspend(self, call: str) -> None:
        """Cuts the block: the first half ends by handing the thread to the scheduler."""
        self._emit(call)
        state, after = self._new("state"), self._new("resumed").removeprefix("%")
        self._emit(f"{state} = call i8 @llvm.coro.suspend(token none, i1 false)")
        self._emit(f"switch i8 {state}, label %emu.out [ i8 0, label %{after} i8 1, label %emu.clean ]")
        self._out.append(f"{after}:")
        self._last[self._label] = after

    def _wait_warp(self, line: str, op: int, mask: str, value: str, b: str, c: str) -> None:
        site, wide = self._sites.add(line), self._new("mask")
        # of 32 lanes as an instruction has it, -1 is all lanes of any warp
        self._emit(f"{wide} = sext i32 {mask} to i64")
        self._suspend(
            f"call void @emu.wait.warp(ptr %emu.thread, i32 {site}, i32 {op}, i64 {wide}, i32 {value}, i32 {b}, i32 {c})"
        )

    def _shuffle(self, line: str, result: str | None, op: int, kind: str, given: tuple[str, str, str, str]) -> None:
        mask, value, b, c = given
        if kind == "float":
            bits = self._new("bits")
            self._emit(f"{bits} = bitcast float {value} to i32")
            value = bits
        self._wait_warp(line, op, mask, value, b, c)
        if result is None:
            return
        if kind == "i32":
            self._emit(f"{result} = call i32 @emu.result(ptr %emu.thread)")
        else:
            bits = self._new("bits")
            self._emit(f"{bits} = call i32 @emu.result(ptr %emu.thread)")
            self._emit(f"{result} = bitcast i32 {bits} to float")

    def _copy(self, line: str, size: int, given: list[str]) -> None:
        to, source = given[:2]
        real = given[2] if len(given) > 2 else str(size)
        site = self._sites.add(line, size)
        where, inside = self._where(source)
        if inside is not None:  # a table, which is no argument
            bytes_, end, checked = self._new("bytes"), self._new("end"), self._new("p")
            self._emit(f"{bytes_} = zext i32 {real} to i64")
            self._emit(f"{end} = {_end_of(inside, self._definitions)}")
            common = f"ptr %emu.thread, ptr {source}, i64 {bytes_}, i64 {size}, i32 {site}"
            self._emit(f"{checked} = call ptr @emu.object({common}, ptr {inside}, ptr {end})")
            source, where = checked, PRIVATE
        self._emit(
            f"call void @emu.copy(ptr %emu.thread, ptr {to}, ptr {source}, i32 {size}, i32 {real}, i32 {site}, "
            f"i32 {self._where(to)[0]}, i32 {where})"
        )

    def _masked(self, line: str, short: str, given: list[tuple[str, str]]) -> None:
        reads = short.startswith("masked.load.")
        if not (reads or short.startswith("masked.store.")):
            raise _unknown(line)
        pointer = given[0 if reads else 1][1]
        mask_type, mask = given[1 if reads else 2] if len(given) == 3 else given[2 if reads else 3]
        vector = given[-1][0] if reads else given[0][0]
        lanes = int(vector[1:].split()[0])
        where, inside = self._where(pointer)
        if inside is not None:
            self._emit(line)
            return
        bits, wide, name = self._new("bits"), self._new("wide"), self._new("p")
        self._emit(f"{bits} = bitcast {mask_type} {mask} to i{lanes}")
        self._emit(f"{wide} = zext i{lanes} {bits} to i64")
        size = size_of(vector) // lanes
        site = self._sites.add(line, size)
        self._emit(
            f"{name} = call ptr @emu.lanes(ptr %emu.thread, ptr {pointer}, i64 {size}, i64 {lanes}, "
            f"i64 {wide}, i64 1, i32 {site}, i32 {where}, i32 {READ if reads else WRITE})"
        )
        self._emit(re.sub(rf"(ptr (?:align \d+ )?){re.escape(pointer)}(?=[,)])", rf"\g<1>{name}", line, count=1))


def _definitions(lines: list[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        if match := re.match(rf"\s*({NAME}) = (.*)$", line):
            found[match[1]] = match[2]
    return found


def _end_of(root: str, definitions: dict[str, str]) -> str:
    """The instruction that makes the pointer behind an object: an alloca or a global."""
    made = definitions[root]
    kind = made if root.startswith("@") else split_top(made.removeprefix("alloca "))[0]
    return f"getelementptr {kind}, ptr {root}, i64 1"


def _unknown(line: str) -> InternalError:
    return InternalError(
        "the emulator does not know an instruction of a kernel",
        found=line,
        advice="teach it in codegen/emulator/coroutine.py",
    )


_FRAME = """\
define internal ptr @"emu.thread.{name}"(ptr %emu.thread, ptr %emu.arguments) presplitcoroutine {{
emu.entry:
{allocas}
  %emu.id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)
  %emu.size = call i64 @llvm.coro.size.i64()
  %emu.more = add i64 %emu.size, 63
  %emu.whole = and i64 %emu.more, -64
  %emu.memory = call ptr @aligned_alloc(i64 64, i64 %emu.whole)
  %emu.handle = call noalias ptr @llvm.coro.begin(token %emu.id, ptr %emu.memory)
{loads}
  %emu.first = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %emu.first, label %emu.out [ i8 0, label %{first} i8 1, label %emu.clean ]
{body}
emu.end:
  call void @emu.ended(ptr %emu.thread)
  %emu.final = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %emu.final, label %emu.out [ i8 0, label %emu.never i8 1, label %emu.clean ]
emu.never:
  unreachable
emu.clean:
  %emu.freed = call ptr @llvm.coro.free(token %emu.id, ptr %emu.handle)
  call void @free(ptr %emu.freed)
  br label %emu.out
emu.out:
  call void @llvm.coro.end(ptr %emu.handle, i1 false, token none)
  ret ptr %emu.handle
}}

define void @"{name}"(ptr %launch) {{
  call void @emu.launch(ptr %launch, ptr @"emu.thread.{name}")
  ret void
}}
"""
