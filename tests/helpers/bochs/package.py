"""The package `bochscpu-python`: the core of the Bochs processor emulator as a library.

Its wheels are linked against a C library that has `__isoc23_` twins of some functions (2.38). Where it is older, a copy is
loaded that asks for the functions themselves: they differ in nothing but the binary numbers that C23 lets them read.

The package makes a Cannon Lake, and offers no choice. What makes that one is led to what makes a Sapphire Rapids: AVX-512 with
instructions of bytes, bfloat16 and halves. Tiles are not built into it (tiles.py).
"""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import sys
import tempfile
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

import pytest

_NAME = "_bochscpu"
_TWINS = ("strtoull", "sscanf")
_MADE, _WANTED = "_Z23create_corei3_cnl_cpuidP8BX_CPU_C", "_Z28create_sapphire_rapids_cpuidP8BX_CPU_C"


@cache
def bochs() -> Any:
    """The extension module. Skips the test where it is not installed."""
    found = importlib.util.find_spec("bochscpu")
    if found is None or found.origin is None:
        pytest.skip("bochscpu-python is not installed, which plays processors that this machine is not")
    (file,) = Path(found.origin).parent.glob(f"{_NAME}*.so")
    try:
        return _load(file)
    except ImportError as error:
        if "__isoc23_" not in str(error):
            raise
    content = file.read_bytes()
    for name in _TWINS:
        old = f"\0__isoc23_{name}\0".encode()
        content = content.replace(old, f"\0{name}\0".encode().ljust(len(old), b"\0"))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, file.name)
        copy.write_bytes(content)
        return _load(copy)


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(_NAME, file, loader=ExtensionFileLoader(_NAME, str(file)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[_NAME] = module
    _choose_processor(ctypes.CDLL(str(file)))
    return module


def _choose_processor(library: ctypes.CDLL) -> None:
    """Writes a jump to the one function over the begin of the other."""
    made, wanted = (ctypes.cast(library[name], ctypes.c_void_p).value or 0 for name in (_MADE, _WANTED))
    first = made - made % mmap.PAGESIZE
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    code = mmap.PROT_READ | mmap.PROT_EXEC
    if protect(first, 2 * mmap.PAGESIZE, code | mmap.PROT_WRITE):
        pytest.skip("this system lets no code be written over, which chooses the processor to play")
    ctypes.memmove(made, b"\xe9" + (wanted - made - 5).to_bytes(4, "little", signed=True), 5)
    protect(first, 2 * mmap.PAGESIZE, code)
