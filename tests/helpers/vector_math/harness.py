"""Compiles one vector math function for a choice of processor, and calls it over arrays."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache, cached_property

import llvmlite.binding as llvm
import numpy as np
import pytest

from tilesmith.codegen.math import functions as inline_math
from tilesmith.targets.host import host_features
from tilesmith.tensor.dtype import DType

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

# name -> (LLVM cpu, lanes of f32); the functions must be right on every one of them
PROCESSORS = {
    "avx512": ("x86-64-v4", 16),
    "avx512 in 256 bits": ("x86-64-v4", 8),
    "avx2": ("x86-64-v3", 8),
    "sse2": ("x86-64", 4),
    "scalar": ("x86-64", 1),
}
NEEDED = {  # of the features that LLVM's levels of x86-64 stand for, those that our targets tell apart
    "x86-64": {"sse2"},
    "x86-64-v3": {"avx2", "fma"},
    "x86-64-v4": {"avx512f", "avx512vl", "avx512bw", "avx512dq"},
}


@dataclass
class Compiled:
    """A loop over arrays around one function, and its assembly."""

    run: ctypes._CFuncPtr
    arity: int
    lanes: int
    engine: llvm.ExecutionEngine
    machine: llvm.TargetMachine
    text: str  # LLVM IR as it is compiled
    runs_here: bool

    @cached_property
    def assembly(self) -> str:
        """What the machine code says."""
        return str(self.machine.emit_assembly(llvm.parse_assembly(self.text)))

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        """The function of every element; skips the test where the host cannot run it."""
        if not self.runs_here:
            pytest.skip("this processor has not all instructions")
        count = arrays[0].size
        padded = -(-count // self.lanes) * self.lanes
        inputs = [np.ones(padded, a.dtype) for a in arrays]
        for full, array in zip(inputs, arrays, strict=True):
            full[:count] = array
        result = np.empty(padded, arrays[0].dtype)
        pointers = [a.ctypes.data for a in (*inputs, *inputs)[:2]]
        self.run(result.ctypes.data, *pointers, padded // self.lanes)
        return result[:count]


def lanes_for(dtype: DType, processor: str) -> int:
    """Lanes of `dtype` in the registers of the processor."""
    lanes = PROCESSORS[processor][1]
    return max(1, lanes * 4 // dtype.bytes) if lanes > 1 else 1


def module_text(name: str, dtype: DType, lanes: int, scales: bool = False) -> str:
    """A module with the function and `void loop(result, x, y, vectors)` around it."""
    header = inline_math.definition(name, dtype, lanes).splitlines()[0]
    kind = header.split("define internal ")[1].split(" @")[0]
    arity = header.count("%")
    loads = "".join(
        f"  %p{a} = getelementptr {kind}, ptr %{a}, i64 %i\n  %v{a} = load {kind}, ptr %p{a}, align {dtype.bytes}\n"
        for a in "xy"[:arity]
    )
    arguments = ", ".join(f"{kind} %v{a}" for a in "xy"[:arity])
    return f"""
{chr(10).join(inline_math.declares(name, dtype, lanes, scales))}
{inline_math.definition(name, dtype, lanes, scales)}
define void @loop(ptr noalias %r, ptr %x, ptr %y, i64 %n) {{
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
{loads}  %value = call {kind} @{inline_math.symbol(name, dtype, lanes)}({arguments})
  %pr = getelementptr {kind}, ptr %r, i64 %i
  store {kind} %value, ptr %pr, align {dtype.bytes}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}}
"""


@cache
def compile_function(name: str, dtype: DType, processor: str, lanes: int | None = None) -> Compiled:
    """The loop, compiled by LLVM alone, once for all tests of a process."""
    width = lanes_for(dtype, processor) if lanes is None else lanes
    module = llvm.parse_assembly(module_text(name, dtype, width, scales=PROCESSORS[processor][0] == "x86-64-v4"))
    module.verify()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=PROCESSORS[processor][0], opt=3)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    text = str(module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    run = signature(engine.get_function_address("loop"))
    arity = inline_math.definition(name, dtype, width).splitlines()[0].count("%")
    other = target.create_target_machine(cpu=PROCESSORS[processor][0], opt=3)  # the engine has the first one
    return Compiled(run, arity, width, engine, other, text, NEEDED[PROCESSORS[processor][0]] <= host_features())


def error_in_ulp(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """|found - truth| in units of the last place of the truth, for finite values; truth is of a wider type."""
    info = np.finfo(found.dtype)
    exponent = np.frexp(np.abs(truth))[1]
    exponent = np.maximum(exponent, info.minexp + 1)
    spacing = np.ldexp(np.ones_like(truth), exponent - info.nmant - 1)
    with np.errstate(invalid="ignore"):
        return np.abs(found.astype(truth.dtype) - truth) / spacing


def special_values(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, the ends of the normal and denormal numbers, both signs."""
    info = np.finfo(dtype)
    positive = [
        0.0,
        info.smallest_subnormal,
        info.tiny,
        np.nextafter(info.tiny, dtype.type(0)),
        1.0,
        info.max,
        math.inf,
    ]
    return np.array([math.nan, *positive, *(-v for v in positive)], dtype)


def all_binades(dtype: np.dtype, per_binade: int, seed: int = 0) -> np.ndarray:
    """Random numbers of every exponent, denormals included, both signs, and the first and last of each binade."""
    info = np.finfo(dtype)
    kind = {4: np.uint32, 8: np.uint64, 2: np.uint16}[dtype.itemsize]
    exponents = np.arange(2 ** (info.bits - 1 - info.nmant) - 1, dtype=kind)[:, None]
    generator = np.random.default_rng(seed)
    fractions = generator.integers(0, 2**info.nmant, (exponents.size, per_binade), dtype=kind)
    fractions[:, 0], fractions[:, 1] = 0, 2**info.nmant - 1
    values = ((exponents << kind(info.nmant)) | fractions).view(dtype).ravel()
    return np.concatenate([values, -values])
