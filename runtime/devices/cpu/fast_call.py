"""The short way into a kernel: NumPy arrays are checked and taken apart by machine code, not by Python.

A call through Python costs about 7 us for three arrays, most of it looking at shapes, dtypes and flags; this one 1 us. The
function is made once per number of arrays. It reads NumPy's C structure (PyArrayObject_fields, a stable ABI) and says no to
whatever is not exactly what the kernel wants: the caller then goes the long way, which finds out what is wrong.

    i32 enter(spec, arguments, prepared, workspace, entry, object, object, ...)

    spec       ndarray's type, then for each array: dtype object, flags it must have, bytes, rank, address of the shape
    arguments, prepared, workspace, entry: of a kernel (codegen.artifact)
    result     0: the kernel has run; 1: something is not as wanted, nothing has run
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .jit import linked

FastCall = Callable[..., int]
Wanted = tuple[np.dtype[Any], tuple[int, ...]]

MOST_ARRAYS = 8  # of one kernel: beyond, the long way is taken
MOST_RANK = 8
_TYPE, _DATA, _RANK, _SHAPE, _DTYPE, _FLAGS = 8, 16, 24, 32, 56, 64  # offsets in PyArrayObject_fields of 64-bit systems
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_WORDS = 5  # of a spec for each array
_numbers = itertools.count()


class ArgumentSpec:
    """Holds what a kernel wants of its arrays, as `enter` reads it. `inputs` come before `outputs`."""

    def __init__(self, inputs: Sequence[Wanted], outputs: Sequence[Wanted]) -> None:
        words = [id(np.ndarray)]
        self._keep: list[object] = []
        for number, (dtype, shape) in enumerate((*inputs, *outputs)):
            extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
            flags = _CONTIGUOUS | _ALIGNED | (_WRITEABLE if number >= len(inputs) else 0)
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            words += [id(dtype), flags, size, len(shape), ctypes.addressof(extents)]
            self._keep += [dtype, extents]
        self._words = (ctypes.c_int64 * len(words))(*words)
        self.pointer = ctypes.addressof(self._words)


def fits(inputs: Sequence[Wanted], outputs: Sequence[Wanted]) -> bool:
    """Says whether there is a short way for such arrays in this process."""
    shapes = [shape for _, shape in (*inputs, *outputs)]
    return len(shapes) <= MOST_ARRAYS and all(len(shape) <= MOST_RANK for shape in shapes) and _structure_is_known()


@lru_cache(maxsize=1)
def _structure_is_known() -> bool:
    """Reads an array both ways."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or object.__basicsize__ != _DATA:
        return False
    array = np.arange(12, dtype=np.int16).reshape(3, 4)[1:]

    def word(offset: int, kind: Any = ctypes.c_int64) -> int:
        return int(kind.from_address(id(array) + offset).value)

    flags = word(_FLAGS, ctypes.c_int32)
    contiguous = flags & (_CONTIGUOUS | _ALIGNED | _WRITEABLE) == _CONTIGUOUS | _ALIGNED | _WRITEABLE
    array.flags.writeable = False
    return (
        word(_TYPE) == id(np.ndarray)
        and word(_DATA) == array.__array_interface__["data"][0]
        and word(_RANK, ctypes.c_int32) == array.ndim
        and tuple((ctypes.c_int64 * 2).from_address(word(_SHAPE))) == array.shape
        and word(_DTYPE) == id(array.dtype)
        and contiguous
        and not word(_FLAGS, ctypes.c_int32) & _WRITEABLE
    )


@lru_cache(maxsize=MOST_ARRAYS * MOST_ARRAYS)
def fast_call(inputs: int, constants: int, outputs: int) -> FastCall:
    """`enter` for so many arrays; the kernel's argument block has the constants between inputs and outputs.

    It releases Python's global lock before it looks at anything: the caller holds the arrays.
    """
    name = f"enter_{inputs}_{constants}_{outputs}_{next(_numbers)}"  # one that was forgotten may still be linked
    library = linked(_text(name, inputs, constants, outputs), name)
    arrays = [ctypes.py_object] * (inputs + outputs)
    function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5, *arrays)(library[name])
    function.library = library  # type: ignore[attr-defined]  # keeps the code
    return function


_SAME_SHAPE = """
define internal i1 @same_shape(ptr %shape, ptr %extents, i32 %rank) {
entry:
  %some = icmp sgt i32 %rank, 0
  br i1 %some, label %loop, label %same
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %more ]
  %p = getelementptr i64, ptr %shape, i32 %i
  %q = getelementptr i64, ptr %extents, i32 %i
  %x = load i64, ptr %p
  %y = load i64, ptr %q
  %equal = icmp eq i64 %x, %y
  br i1 %equal, label %more, label %other
more:
  %next = add i32 %i, 1
  %again = icmp slt i32 %next, %rank
  br i1 %again, label %loop, label %same
same:
  ret i1 true
other:
  ret i1 false
}
"""


def _text(name: str, inputs: int, constants: int, outputs: int) -> str:
    """The function's IR: for each array its type, dtype, flags, rank and shape; outputs touch no other array."""
    parameters = ", ".join(f"ptr %a{n}" for n in range(inputs + outputs))
    body = _CallText()
    body.load("type", "i64", "%spec", 0)
    for n in range(inputs + outputs):
        body.check_array(n)
    for out in range(inputs, inputs + outputs):
        for other in range(out):
            body.check_apart(out, other)
    for n in range(inputs + outputs):
        body.pass_on(n, n if n < inputs else n + constants)
    return f"""{_SAME_SHAPE}
define i32 @{name}(ptr %spec, ptr %arguments, ptr %prepared, ptr %workspace, ptr %entry, {parameters}) {{
start:
{chr(10).join(body.lines)}
  call void %entry(ptr %arguments, ptr %prepared, ptr %workspace)
  ret i32 0
no:
  ret i32 1
}}
"""


class _CallText:
    """The lines of a fast call while they are written: checks that lead to the block `no` where one fails."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._blocks = 0

    def check_array(self, n: int) -> None:
        """Compares array n with what the argument spec wants of it."""
        a, words = f"a{n}", 8 * (1 + _WORDS * n)
        self.load(f"{a}.type", "i64", f"%{a}", _TYPE)
        self._go_on_if_equal(f"{a}.type.same", "i64", f"%{a}.type", "%type")
        self.load(f"{a}.dtype", "i64", f"%{a}", _DTYPE)
        self.load(f"{a}.wanted", "i64", "%spec", words)
        self._go_on_if_equal(f"{a}.dtype.same", "i64", f"%{a}.dtype", f"%{a}.wanted")
        self.load(f"{a}.flags", "i32", f"%{a}", _FLAGS)
        self.load(f"{a}.must", "i32", "%spec", words + 8)
        self.load(f"{a}.size", "i64", "%spec", words + 16)
        self.load(f"{a}.ranks", "i32", f"%{a}", _RANK)
        self.load(f"{a}.rank", "i32", "%spec", words + 24)
        self.load(f"{a}.extents", "ptr", "%spec", words + 32)
        self.load(f"{a}.shape", "ptr", f"%{a}", _SHAPE)
        self.load(f"{a}.data", "i64", f"%{a}", _DATA)
        self.lines.append(f"  %{a}.has = and i32 %{a}.flags, %{a}.must")
        self._go_on_if_equal(f"{a}.flagged", "i32", f"%{a}.has", f"%{a}.must")
        self._go_on_if_equal(f"{a}.ranked", "i32", f"%{a}.ranks", f"%{a}.rank")
        self.lines.append(f"  %{a}.shaped = call i1 @same_shape(ptr %{a}.shape, ptr %{a}.extents, i32 %{a}.rank)")
        self._go_on_if(f"%{a}.shaped")
        self.lines.append(f"  %{a}.end = add i64 %{a}.data, %{a}.size")

    def check_apart(self, one: int, other: int) -> None:
        """Checks that two arrays share no memory."""
        pair = f"{one}.{other}"
        self.lines.append(f"  %before{pair} = icmp ule i64 %a{one}.end, %a{other}.data")
        self.lines.append(f"  %after{pair} = icmp ule i64 %a{other}.end, %a{one}.data")
        self.lines.append(f"  %apart{pair} = or i1 %before{pair}, %after{pair}")
        self._go_on_if(f"%apart{pair}")

    def pass_on(self, n: int, slot: int) -> None:
        """Gives the kernel array n as its argument number `slot`."""
        self.lines.append(f"  %slot{n} = getelementptr i64, ptr %arguments, i64 {slot}")
        self.lines.append(f"  store i64 %a{n}.data, ptr %slot{n}")

    def load(self, register: str, kind: str, base: str, offset: int) -> None:
        """Reads what lies so many bytes behind a base."""
        self.lines.append(f"  %{register}.p = getelementptr i8, ptr {base}, i64 {offset}")
        self.lines.append(f"  %{register} = load {kind}, ptr %{register}.p")

    def _go_on_if_equal(self, register: str, kind: str, one: str, other: str) -> None:
        self.lines.append(f"  %{register} = icmp eq {kind} {one}, {other}")
        self._go_on_if(f"%{register}")

    def _go_on_if(self, condition: str) -> None:
        self._blocks += 1
        self.lines.append(f"  br i1 {condition}, label %b{self._blocks}, label %no")
        self.lines.append(f"b{self._blocks}:")
