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


def _text(name: str, inputs: int, constants: int, outputs: int) -> str:
    """The function's IR: for each array its type, dtype, flags, rank and shape; outputs touch no other array."""
    count = inputs + outputs
    body: list[str] = []
    blocks = 0

    def load(register: str, kind: str, base: str, offset: int) -> None:
        body.append(f"  %{register}.p = getelementptr i8, ptr {base}, i64 {offset}")
        body.append(f"  %{register} = load {kind}, ptr %{register}.p")

    def go_on_if(condition: str) -> None:
        nonlocal blocks
        blocks += 1
        body.append(f"  br i1 {condition}, label %b{blocks}, label %no")
        body.append(f"b{blocks}:")

    load("type", "i64", "%spec", 0)
    for n in range(count):
        a, words = f"a{n}", 8 * (1 + _WORDS * n)
        for word, (part, offset, kind) in enumerate((("type", _TYPE, "i64"), ("dtype", _DTYPE, "i64"))):
            load(f"{a}.{part}", kind, f"%{a}", offset)
            wanted = "%type"
            if word:
                load(f"{a}.wanted", "i64", "%spec", words)
                wanted = f"%{a}.wanted"
            body.append(f"  %{a}.{part}.same = icmp eq i64 %{a}.{part}, {wanted}")
            go_on_if(f"%{a}.{part}.same")
        load(f"{a}.flags", "i32", f"%{a}", _FLAGS)
        load(f"{a}.must", "i32", "%spec", words + 8)
        load(f"{a}.size", "i64", "%spec", words + 16)
        load(f"{a}.ranks", "i32", f"%{a}", _RANK)
        load(f"{a}.rank", "i32", "%spec", words + 24)
        load(f"{a}.extents", "ptr", "%spec", words + 32)
        load(f"{a}.shape", "ptr", f"%{a}", _SHAPE)
        load(f"{a}.data", "i64", f"%{a}", _DATA)
        body.append(f"  %{a}.has = and i32 %{a}.flags, %{a}.must")
        body.append(f"  %{a}.flagged = icmp eq i32 %{a}.has, %{a}.must")
        go_on_if(f"%{a}.flagged")
        body.append(f"  %{a}.ranked = icmp eq i32 %{a}.ranks, %{a}.rank")
        go_on_if(f"%{a}.ranked")
        body.append(f"  %{a}.shaped = call i1 @same_shape(ptr %{a}.shape, ptr %{a}.extents, i32 %{a}.rank)")
        go_on_if(f"%{a}.shaped")
        body.append(f"  %{a}.end = add i64 %{a}.data, %{a}.size")
    for out in range(inputs, count):
        for other in range(out):
            pair = f"{out}.{other}"
            body.append(f"  %before{pair} = icmp ule i64 %a{out}.end, %a{other}.data")
            body.append(f"  %after{pair} = icmp ule i64 %a{other}.end, %a{out}.data")
            body.append(f"  %apart{pair} = or i1 %before{pair}, %after{pair}")
            go_on_if(f"%apart{pair}")
    for n in range(count):
        slot = n if n < inputs else n + constants
        body.append(f"  %slot{n} = getelementptr i64, ptr %arguments, i64 {slot}")
        body.append(f"  store i64 %a{n}.data, ptr %slot{n}")
    parameters = ", ".join(f"ptr %a{n}" for n in range(count))
    return f"""
define internal i1 @same_shape(ptr %shape, ptr %extents, i32 %rank) {{
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
}}
define i32 @{name}(ptr %spec, ptr %arguments, ptr %prepared, ptr %workspace, ptr %entry, {parameters}) {{
start:
{chr(10).join(body)}
  call void %entry(ptr %arguments, ptr %prepared, ptr %workspace)
  ret i32 0
no:
  ret i32 1
}}
"""
