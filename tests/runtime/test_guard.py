"""Guarded arrays: using them is harmless, going beyond them ends a process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tilesmith.runtime.guard import guarded_array


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (1024,), (2, 4096)])
def test_the_whole_array_can_be_used(shape: tuple[int, ...], at_end: bool) -> None:
    array = guarded_array(shape, np.float32, at_end)
    array[...] = 7
    assert array.shape == shape and array.flags.c_contiguous and array.flags.writeable
    assert float(array.sum()) == 7 * array.size


@pytest.mark.parametrize(("at_end", "where"), [(True, 20), (False, -1)])
def test_one_byte_beyond_is_fatal(at_end: bool, where: int) -> None:
    code = f"""
import ctypes, numpy as np
from tilesmith.runtime.guard import guarded_array
a = guarded_array((5,), np.float32, {at_end})
ctypes.string_at(a.ctypes.data, 20)
print("inside", flush=True)
ctypes.string_at(a.ctypes.data + {where}, 1)
print("beyond", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "inside\n"
    assert done.returncode < 0
