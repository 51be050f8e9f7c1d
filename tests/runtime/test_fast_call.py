"""The short way into a kernel: it runs on exactly what is wanted, says no to all else, and then has touched nothing."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tilesmith
from helpers.pipeline.candidates import random_config
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import ArgumentError
from tilesmith.runtime.devices.cpu.fast_call import fast_call
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

HOST = parse_target("host")
M, N, K = 97, 50, 64  # enough work to start threads


def constant_operand() -> Kernel:
    b = np.random.default_rng(1).standard_normal((K, N), dtype=np.float32)
    program = ops.matmul(m=M, n=N, k=K, constants=("B",))
    return tilesmith.compile(program, db=":memory:", threads=2, constants={"B": b})


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """C = A @ B, B constant, in two threads."""
    made = constant_operand()
    assert made.artifact.runtime_symbols
    return made


def arrays(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    a = np.random.default_rng(seed).standard_normal((M, K), dtype=np.float32)
    return a, np.full((M, N), np.nan, np.float32)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


class Special(np.ndarray):
    """A subclass may mean anything."""


def test_it_runs_on_what_is_wanted(kernel: Kernel) -> None:
    a, out = arrays()
    assert kernel._loaded.run_if_right(a, out)
    other = arrays()[1]
    kernel._loaded.run([a, other])
    np.testing.assert_array_equal(out, other)


def test_several_outputs_go_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    two = tilesmith.compile(
        tilesmith.parse("input x: f32[16]\na[i: 16] = x[i] + 1\nb[i: 16] = x[i] * 2\nreturn a, b"), db=":memory:"
    )
    x = np.arange(16, dtype=np.float32)
    outs = (np.empty_like(x), np.empty_like(x))
    with monkeypatch.context() as patch:
        patch.delattr(two, "_run")  # the long way
        assert two(x, out=outs) is outs
    np.testing.assert_array_equal(outs, (x + 1, x * 2))
    for wrong in (outs[:1], (*outs, outs[0]), (outs[0], outs[0]), (outs[0], x)):
        with pytest.raises(ArgumentError, match="out"):
            two(x, out=wrong)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda a, out: (a.astype(np.float64), out),
        lambda a, out: (a[: M - 1], out),
        lambda a, out: (a.reshape(M, K, 1), out),
        lambda a, out: (a.reshape(M * K), out),
        lambda a, out: (np.asfortranarray(a), out),
        lambda a, out: (a.tolist(), out),
        lambda a, out: (None, out),
        lambda a, out: (a.view(Special), out),
        lambda a, out: (a, read_only(out)),
        lambda a, out: (a, out.astype(np.float64)),
        lambda a, out: (a, a.reshape(-1)[: M * N].reshape(M, N)),
    ],
)
def test_it_refuses_all_else(kernel: Kernel, spoil) -> None:  # type: ignore[no-untyped-def]
    a, out = arrays()
    before = a.copy()
    assert not kernel._loaded.run_if_right(*spoil(a, out))
    assert np.isnan(out).all()
    np.testing.assert_array_equal(a, before)


def test_unaligned_memory_goes_the_long_way_to_its_error(kernel: Kernel) -> None:
    a, out = arrays()
    bytes_ = np.zeros(a.nbytes + 1, np.uint8)
    with pytest.raises(ArgumentError, match="between the addresses of its elements"):
        kernel(bytes_[1:].view(np.float32).reshape(a.shape), out=out)


def test_touching_neighbours_share_nothing(kernel: Kernel) -> None:
    both = np.zeros(M * K + M * N, np.float32)
    a, out = both[: M * K].reshape(M, K), both[M * K :].reshape(M, N)
    a[...] = arrays()[0]
    assert kernel._loaded.run_if_right(a, out)


def with_step(program: Program, step: str) -> Kernel:
    """A kernel in two threads, of a sketch that has such a step, with memory of its own in between."""
    task, rng = Task.of(program, HOST, 2), np.random.default_rng(0)
    for sketch in task.sketches:
        if step not in sketch.text or ("tensorize(" in sketch.text) != (step == "tensorize("):
            continue
        for _ in range(3):
            values = random_config(task, sketch, rng)
            artifact = build(task.program, sketch, values or {}, HOST, 2)
            if artifact.workspace_bytes and artifact.runtime_symbols:
                return Kernel(artifact)
    raise AssertionError(f"no kernel with {step}, a workspace and threads")


KERNELS = {
    "constant": constant_operand,
    "packs": lambda: with_step(ops.matmul(M, 130, K), "copy("),
    "softmax": lambda: tilesmith.compile(ops.softmax(64, 300), db=":memory:", threads=2),
    "parts of a sum": lambda: with_step(ops.matvec(4, 40000), "split_k"),
    "matrix unit": lambda: with_step(ops.matmul(M, N, K), "tensorize("),
}


@pytest.mark.parametrize("name", KERNELS)
def test_eight_threads_agree_with_one(name: str) -> None:
    """Each thread has inputs of its own and calls many times; all results are those of one thread, bit for bit."""
    if name == "matrix unit" and not HOST.has_matrix_unit:
        pytest.skip("this processor has no matrix unit")
    kernel = KERNELS[name]()
    shapes = [spec.shape for spec in kernel.artifact.inputs]
    rng = np.random.default_rng(7)
    given = [[rng.standard_normal(shape, dtype=np.float32) for shape in shapes] for _ in range(8)]
    expected = [kernel(*inputs).copy() for inputs in given]
    assert len({result.tobytes() for result in expected}) == 8
    together = threading.Barrier(8)
    wrong: list[int] = []

    def work(number: int) -> None:
        out = np.empty_like(expected[number])
        together.wait()
        for _ in range(60):
            out.fill(np.nan)
            kernel(*given[number], out=out)
            if not np.array_equal(out, expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_fast_call_that_was_forgotten_is_made_again() -> None:
    fast_call(1, 0, 1)
    fast_call.cache_clear()  # as many others would; the old one may still be in use
    assert fast_call(1, 0, 1)
