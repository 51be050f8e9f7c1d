"""The text of one LLVM function, with value numbering and hoisting while it is written.

A function is a stack of scopes: the whole body, then a scope for each loop and each arm of a branch that is being written.
Every name belongs to the scope whose code defines it. A pure instruction is written into the innermost scope that one of its
operands belongs to, in front of the loops opened since, and is remembered there by its text: so common subexpressions are
written once and invariant ones stand outside of their loops, and no LLVM pass has to find them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...tensor.dtype import DType
from .types import Value, value_type

Mark = tuple[int, str, list[str]]
MOST_INDUCTION_POINTERS = 6  # pointers that one loop moves along
SCALES = (1, 2, 4, 8)  # multiples of a register that an address can have anyway
OPAQUE = 'asm "", "=r,0"'  # its result is its operand, but LLVM does not know it


class InductionPointers:
    """The pointers that move along with the counter of an innermost loop, so that no trip computes them anew.

    LLVM's loop strength reduction would find them too, for a third of the whole compile time; all loops count by steps that it
    cannot see through, so they are no work for it.
    """

    __slots__ = ("first", "found", "level", "step")

    def __init__(self, first: str, step: int, level: int) -> None:
        self.first = first  # the counter in the first trip
        self.step = step
        self.level = level  # of the scope of the loop
        # base, bytes a count -> phi, its value in the first trip
        self.found: dict[tuple[str, int], tuple[str, str]] = {}


class CodeScope:
    """Code being written. `lines` grows until the scope's next block begins.

    branch: an arm, of which perhaps another is run instead. certain: run at least once whenever its parent is.
    writes: the buffers that the scope's code may write.
    """

    __slots__ = ("branch", "certain", "conditions", "lines", "loaded", "memo", "writes")

    def __init__(self, lines: list[str], branch: bool, certain: bool, writes: frozenset[str]) -> None:
        self.lines = lines
        self.memo: dict[str, str] = {}  # text of a pure instruction -> its name
        self.conditions: dict[object, Value] = {}  # what index comparisons gave
        self.loaded: dict[str, dict[object, Value]] = {}
        self.branch = branch
        self.certain = certain
        self.writes = writes


class FunctionText:
    """Writes one function. Names are `%v1`, `%v2`, ...; blocks are `b1`, ..."""

    def __init__(self, first_name: int = 0) -> None:
        self._count = first_name
        self.entry: list[str] = []  # allocas stand before everything else
        self.chunks: list[list[str]] = []
        self.scopes: list[CodeScope] = [CodeScope(self._chunk(), False, True, frozenset())]
        self.block = "entry"
        self._floor = 0  # the innermost scope that is an arm of a branch
        self.levels: dict[str, int] = {}  # the scope that a name belongs to; literals and parameters have no entry
        self.induction: dict[str, InductionPointers] = {}  # counter -> the pointers that move along
        self._dump = ""
        self.place = ""  # what stands behind instructions: where they come from (debug_info/metadata.py)

    @property
    def count(self) -> int:
        """Names given so far; a function that shares names with this one begins after it."""
        return self._count

    def _chunk(self) -> list[str]:
        lines: list[str] = []
        self.chunks.append(lines)
        return lines

    def name(self, prefix: str = "%v") -> str:
        """A name that is used nowhere else."""
        self._count += 1
        return f"{prefix}{self._count}"

    # Instructions

    def pure(self, text: str, *operands: str) -> str:
        """The value of an instruction that is cheap and has no effect; it may be computed anywhere."""
        level = 0
        for operand in operands:
            level = max(level, self.levels.get(operand, 0))
        return self._at(level, text)

    def compute(self, text: str, *operands: str) -> str:
        """Works as `pure`, but never moved out of an arm of a branch, because it may be costly."""
        level = self._floor
        for operand in operands:
            level = max(level, self.levels.get(operand, 0))
        return self._at(level, text)

    def _at(self, level: int, text: str) -> str:
        scope = self.scopes[level]
        known = scope.memo.get(text)
        if known is None:
            self._count += 1
            known = scope.memo[text] = f"%v{self._count}"
            scope.lines.append(f"  {known} = {text}{self.place}")
            if level:
                self.levels[known] = level
        return known

    def scope_of(self, names: Iterable[str]) -> CodeScope:
        """The innermost scope that one of the names belongs to: what is pure and made of them can be remembered there."""
        return self.scopes[max([self.levels.get(name, 0) for name in names], default=0)]

    def effect(self, text: str) -> str:
        """The value of an instruction that must stand exactly here."""
        name = self.name()
        self.scopes[-1].lines.append(f"  {name} = {text}{self.place}")
        self.levels[name] = len(self.scopes) - 1
        return name

    def line(self, text: str) -> None:
        """An instruction without a value."""
        self.scopes[-1].lines.append(f"  {text}{self.place}")

    def alloca(self, type_text: str, align: int, space: str = "") -> str:
        """Stack memory of the whole function. `space`: the address space in which the target has it."""
        name = self.name("%s")
        self.entry.append(f"  {name} = alloca {type_text}, align {align}{f', {space}' if space else ''}")
        return name

    def cast(self, given: str, pointer: str, wanted: str) -> str:
        """A pointer of one type as one of another address space."""
        return pointer if given == wanted else self.pure(f"addrspacecast {given} {pointer} to {wanted}", pointer)

    # Loads

    def read(self, text: str, buffer: str, *operands: str, movable: bool) -> str:
        """The value of an instruction that reads `buffer`: in front of the loops that surely run, do not write the buffer and
        do not change the operands."""
        if not movable:
            return self.effect(text)
        level = max([self.levels.get(name, 0) for name in operands], default=0)
        for outer in range(len(self.scopes) - 1, level, -1):
            scope = self.scopes[outer]
            if not scope.certain or buffer in scope.writes:
                level = outer
                break
        name = self.name()
        self.scopes[level].lines.append(f"  {name} = {text}{self.place}")
        self.levels[name] = level
        return name

    def recall(self, buffer: str, key: object) -> Value | None:
        """Returns what `remember` was told under this key, if the buffer cannot have changed since."""
        for scope in reversed(self.scopes):
            value = scope.loaded.get(buffer, {}).get(key)
            if value is not None:
                return value
            if buffer in scope.writes:
                return None
        return None

    def load_anew(self) -> None:
        """Lets what was loaded in the innermost scope be loaded again: there is no register to keep it in."""
        self.scopes[-1].loaded.clear()

    def remember(self, buffer: str, key: object, value: Value) -> None:
        """Notes what is in the buffer now."""
        level = min(self.levels.get(value.text, 0), len(self.scopes) - 1)
        for outer in range(len(self.scopes) - 1, level, -1):
            if self.scopes[outer].branch or buffer in self.scopes[outer].writes:
                level = outer
                break
        self.scopes[level].loaded.setdefault(buffer, {})[key] = value

    def forget(self, buffer: str) -> None:
        """Forgets what was loaded of a buffer, because it changes now."""
        self.scopes[-1].loaded.pop(buffer, None)

    def dump(self) -> str:
        """Memory for stores whose condition does not hold."""
        if not self._dump:
            self._dump = self.alloca("[4096 x i8]", 64)
        return self._dump

    # Blocks

    def start_block(self, label: str) -> None:
        """Ends the current block's code (its terminator has been written) and begins another in the same scope."""
        lines = self._chunk()
        lines.append(f"{label}:")
        self.scopes[-1].lines = lines
        self.block = label

    def open(
        self, terminator: str, label: str, *, writes: frozenset[str], branch: bool = False, certain: bool = False
    ) -> list[str]:
        """Ends the current block with `terminator` ("" if it has one), behind what is still hoisted into it, and opens a
        scope whose code begins in block `label`. Returns the lines at the top of that block, for phis."""
        top = self._chunk()
        top += [f"  {terminator}", f"{label}:"] if terminator else [f"{label}:"]
        self.scopes.append(CodeScope(self._chunk(), branch, certain, writes))
        if branch:
            self._floor = len(self.scopes) - 1
        self.block = label
        return top

    def close(self, terminator: str) -> None:
        """Ends the innermost scope; its parent needs `start_block` to go on."""
        self.line(terminator)
        for buffer in self.scopes.pop().writes:
            self.forget(buffer)
        self._floor = max([level for level, scope in enumerate(self.scopes) if scope.branch], default=0)

    def phi(
        self, top: list[str], dtype: DType, lanes: int, edges: list[tuple[str, str]], name: str | None = None
    ) -> Value:
        """Writes a phi at the top of a block of the innermost scope."""
        name = name or self.name()
        incoming = ", ".join(f"[ {value}, %{label} ]" for value, label in edges)
        top.append(f"  {name} = phi {value_type(dtype, lanes)} {incoming}")
        self.levels[name] = len(self.scopes) - 1
        return Value(name, dtype, lanes)

    def induction_pointer(self, counter: str, base: str, size: int) -> str | None:
        """base + size * counter as a pointer that moves along with the counter's loop; None where that is not worth it."""
        pointers = self.induction.get(counter)
        if pointers is None or size in SCALES or self.levels.get(base, 0) >= pointers.level:
            return None
        known = pointers.found.get((base, size))
        if known is None:
            if len(pointers.found) == MOST_INDUCTION_POINTERS:
                return None
            first = base
            if pointers.first != "0":
                first = self.pure(
                    f"getelementptr [{size} x i8], ptr {base}, i64 {pointers.first}", base, pointers.first
                )
            self._count += 1
            known = pointers.found[base, size] = f"%v{self._count}", first
            self.levels[known[0]] = pointers.level
        return known[0]

    def step_induction(self, counter: str, kind: str, following: str, top: list[str], entry: str) -> str:
        """Ends a trip of a loop: moves the pointers along; returns the next value of the counter, hidden from LLVM but for
        its range (in `kind`), which shortens comparisons with it."""
        pointers = self.induction.pop(counter, None)
        if pointers is not None:
            for (_, size), (name, first) in pointers.found.items():
                moved = self.effect(f"getelementptr i8, ptr {name}, i64 {size * pointers.step}")
                moved = self.effect(f"call ptr {OPAQUE}(ptr {moved})")
                top.append(f"  {name} = phi ptr [ {first}, %{entry} ], [ {moved}, %{self.block} ]")
        return self.effect(f"call {kind} {OPAQUE}(i64 {following})")

    def reserve(self) -> str:
        """A name of the innermost scope for a phi that is written later."""
        name = self.name()
        self.levels[name] = len(self.scopes) - 1
        return name

    def adopt(self, name: str) -> None:
        """A name of a loop that has surely run, used behind the loop, belongs to the scope around it from now on."""
        if self.levels.get(name, 0) >= len(self.scopes):
            self.levels[name] = len(self.scopes) - 1

    def merge(self, like: Value, edges: list[tuple[str, str]]) -> Value:
        """A phi at the top of the block just started, of the type of `like`."""
        incoming = ", ".join(f"[ {value}, %{label} ]" for value, label in edges)
        return Value(self.effect(f"phi {like.type} {incoming}"), like.dtype, like.lanes)

    # Taking back

    def mark(self) -> Mark:
        """Says where the writing stands, for `reset`."""
        return len(self.chunks), self.block, self.scopes[-1].lines

    def reset(self, mark: Mark) -> None:
        """Takes back all blocks begun since `mark`, which was made in the same scope. What was hoisted stays."""
        chunks, self.block, self.scopes[-1].lines = mark
        del self.chunks[chunks:]

    def text(self) -> str:
        """The body, without the braces."""
        lines = ["entry:", *self.entry]
        for chunk in self.chunks:
            lines += chunk
        return "\n".join(lines)
