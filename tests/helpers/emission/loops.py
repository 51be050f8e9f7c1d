"""Short words for loop IR written by hand, and ways to run it: compiled, behind guard pages, and interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers.lowering.interpreter import Interpreter
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.ir.loop_ir import (
    Block,
    Buffer,
    For,
    LoopKind,
    LoopProgram,
    Nest,
    Scope,
    Statement,
    Store,
    Update,
)
from tilesmith.codegen.pipeline import assembled
from tilesmith.runtime.devices.cpu.device import CpuDevice
from tilesmith.runtime.guard import guarded_array
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.dtype import DType, f32, i64
from tilesmith.tensor.expr import Const, Expr, Operand, Read, Var, as_expr, call

HOST = parse_target("host")
ZERO = Const(0.0, f32)


def index(value: Operand) -> Expr:
    return value if isinstance(value, Expr) else Const(int(value), i64)


def names(text: str) -> list[Var]:
    return [Var(name) for name in text.split()]


def read(buffer: Buffer, *indices: Operand) -> Read:
    return Read(buffer.name, tuple(map(index, indices)), buffer.dtype)


def store(buffer: Buffer, indices: Sequence[Operand], value: Expr, streaming: bool = False) -> Store:
    return Store(buffer.name, tuple(map(index, indices)), value, streaming)


def update(buffer: Buffer, indices: Sequence[Operand], combiner: str, value: Expr) -> Update:
    return Update(buffer.name, tuple(map(index, indices)), combiner, value)


def serial(var: Var, extent: Operand, *body: Statement, unroll: int = 1) -> For:
    return For(var.name, index(extent), block(*body), unroll=unroll)


def parallel(var: Var, extent: Operand, *body: Statement) -> For:
    return For(var.name, index(extent), block(*body), LoopKind.PARALLEL)


def unrolled(var: Var, extent: int, *body: Statement, valid: Operand | None = None) -> For:
    return For(var.name, index(extent), block(*body), LoopKind.UNROLL, valid=None if valid is None else index(valid))


def lanes(var: Var, extent: int, *body: Statement, valid: Operand | None = None) -> For:
    return For(var.name, index(extent), block(*body), LoopKind.VECTOR, valid=None if valid is None else index(valid))


def block(*body: Statement) -> Statement:
    return body[0] if len(body) == 1 else Block(body)


def least(left: Operand, right: Operand) -> Expr:
    return call("min", index(left), as_expr(right, index(left)))


def most(left: Operand, right: Operand) -> Expr:
    return call("max", index(left), as_expr(right, index(left)))


def given(name: str, *shape: int, dtype: DType = f32) -> Buffer:
    return Buffer(name, dtype, shape, Scope.INPUT)


def result(name: str, *shape: int, dtype: DType = f32) -> Buffer:
    return Buffer(name, dtype, shape, Scope.OUTPUT)


def program(
    arguments: Sequence[Buffer], *nests: Statement, globals: Sequence[Buffer] = (), prepare: Sequence[Statement] = ()
) -> LoopProgram:
    def named(bodies: Sequence[Statement]) -> tuple[Nest, ...]:
        return tuple(Nest(f"part{number}", body) for number, body in enumerate(bodies))

    return LoopProgram("kernel", tuple(arguments), tuple(globals), named(prepare), named(nests))


def random(buffer: Buffer, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng([seed, *map(ord, buffer.name)])
    if buffer.dtype.name == "bool":
        return rng.integers(0, 2, buffer.shape).astype(bool)
    if buffer.dtype.name == "bf16":
        return (rng.standard_normal(buffer.shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if buffer.dtype.is_float:
        return np.asarray(rng.standard_normal(buffer.shape)).astype(buffer.dtype.numpy)
    low, high = (0, 200) if buffer.dtype.name == "u8" else (-100, 100)
    return rng.integers(low, high, buffer.shape).astype(buffer.dtype.numpy)


def run(
    loops: LoopProgram,
    inputs: Sequence[np.ndarray[Any, Any]],
    threads: int = 1,
    target: Target = HOST,
    at_end: bool = True,
) -> list[np.ndarray[Any, Any]]:
    """The outputs of the compiled program; all arguments lie beside a protected page, outputs are poisoned."""
    return run_artifact(assembled(loops, target, threads), loops, inputs, at_end)


def run_artifact(
    artifact: Artifact, loops: LoopProgram, inputs: Sequence[np.ndarray[Any, Any]], at_end: bool = True
) -> list[np.ndarray[Any, Any]]:
    kernel = CpuDevice().load(artifact)
    given = [_beside_a_guard(array, at_end) for array in inputs]
    split = len(artifact.inputs)
    if artifact.constants:
        kernel.prepare(given[split:])
    outputs = []
    for buffer in loops.arguments:
        if buffer.scope is Scope.OUTPUT:
            array = guarded_array(buffer.shape, buffer.dtype.numpy, at_end)
            array.reshape(-1).view(np.uint8).fill(0xA5)
            outputs.append(array)
    kernel.run([*given[:split], *outputs])
    return outputs


def _beside_a_guard(array: np.ndarray[Any, Any], at_end: bool) -> np.ndarray[Any, Any]:
    copy = guarded_array(array.shape, array.dtype, at_end)
    copy[...] = array
    return copy


def interpret(loops: LoopProgram, inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The outputs of the program by the interpreter."""
    outputs = [
        np.full(buffer.shape, 77).astype(buffer.dtype.numpy)
        for buffer in loops.arguments
        if buffer.scope is Scope.OUTPUT
    ]
    Interpreter(loops).run([*inputs, *outputs])
    return outputs
