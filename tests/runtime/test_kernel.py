"""Kernels: what they accept, what they refuse, several callers at a time, and what a call costs."""

from __future__ import annotations

import ctypes
import mmap
import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.emission.loops import (
    HOST,
    ZERO,
    block,
    given,
    index,
    lanes,
    names,
    parallel,
    program,
    read,
    result,
    serial,
    store,
    update,
)
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.ir.loop_ir import Buffer, Scope
from tilesmith.codegen.pipeline import assembled
from tilesmith.common.errors import ArgumentError, EnvironmentFailure, TargetError
from tilesmith.runtime.devices.cpu.device import CpuDevice
from tilesmith.runtime.devices.cpu.memory import (
    LARGE_PAGE,
    address,
    aligned_array,
    kept_memory,
    release_behind,
    release_mapped,
)
from tilesmith.runtime.dlpack import _tensor
from tilesmith.runtime.kernel import Kernel
from tilesmith.tensor.dtype import bf16, f32

I, J, L = names("i j l")  # noqa: E741


def scale_artifact(threads: int = 1, texts: bool = False) -> Artifact:
    """z = x * w + y with a constant w that is kept doubled and halved again."""
    x, y, z = given("x", 4, 16), given("y", 4, 16), result("z", 4, 16)
    w = Buffer("w", f32, (16,), Scope.CONSTANT)
    kept = Buffer("kept", f32, (16,), Scope.PREPARED)
    shared = Buffer("shared", f32, (4, 16), Scope.WORKSPACE)
    prepare = serial(J, 16, store(kept, (J,), read(w, J) * 2.0))
    first = parallel(I, 4, lanes(L, 16, store(shared, (I, L), read(x, I, L) * read(kept, L))))
    second = parallel(I, 4, lanes(L, 16, store(z, (I, L), read(shared, I, L) * 0.5 + read(y, I, L))))
    loops = program((x, y, w, z), first, second, globals=(kept, shared), prepare=(prepare,))
    return assembled(loops, HOST, threads, texts)


W = np.arange(16, dtype=np.float32)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Kernel(scale_artifact(2), {"w": W}, provenance="by hand")


def inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((4, 16)).astype(np.float32), rng.standard_normal((4, 16)).astype(np.float32)


def test_call_allocates_or_writes_to_out(kernel: Kernel) -> None:
    x, y = inputs()
    expected = x * W + y
    np.testing.assert_allclose(kernel(x, y), expected, rtol=1e-6)
    out = np.empty((4, 16), np.float32)
    assert kernel(x, y, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert kernel.provenance == "by hand"
    assert repr(kernel) == "<Kernel kernel(x: f32[4, 16], y: f32[4, 16]) -> z: f32[4, 16]>"


def test_runs_without_python_between_take_all_arrays(kernel: Kernel) -> None:
    x, y = inputs()
    out = np.full((4, 16), np.nan, np.float32)
    assert kernel.repeat((x, y, out), 3) > 0
    np.testing.assert_allclose(out, x * W + y, rtol=1e-6)
    for wrong in ((x, y), (x, y, out, out), ()):
        with pytest.raises(ArgumentError, match="a wrong number of arrays"):
            kernel.repeat(wrong, 1)


def test_several_outputs_are_a_tuple() -> None:
    x, a, b = given("x", 8), result("a", 8), result("b", 8)
    two = Kernel(
        assembled(program((x, a, b), serial(I, 8, store(a, (I,), read(x, I)), store(b, (I,), -read(x, I)))), HOST, 1)
    )
    data = np.arange(8, dtype=np.float32)
    first, second = two(data)
    np.testing.assert_array_equal(first, data)
    np.testing.assert_array_equal(second, -data)
    outs = (np.empty(8, np.float32), np.empty(8, np.float32))
    assert two(data, out=outs) is outs
    np.testing.assert_array_equal(outs[1], -data)


class Wrapped:
    """An array of another library."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array = array
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)


class Masked:
    """An array of another library, some elements of which do not count."""

    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = {**array.__array_interface__, "mask": array > 0}
        self.array = array


class Nothing(Wrapped):
    """An array that says that it is in host memory, and has none, as torch's fake tensors."""

    def __dlpack__(self, **options: object) -> object:
        capsule = self.array.__dlpack__(**options)
        _tensor(capsule).data = None
        return capsule


class Nowhere(Wrapped):
    """An array without memory, as on torch's device "meta"."""

    def __dlpack_device__(self) -> tuple[int, int]:
        raise ValueError("Unknown device type meta for Dlpack")


class Interface:
    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


def test_arrays_of_other_libraries_are_taken_without_a_copy(kernel: Kernel) -> None:
    x, y = inputs()
    out = np.empty((4, 16), np.float32)
    wrapped = Wrapped(out)
    assert kernel(Wrapped(x), Interface(y), out=wrapped) is wrapped
    np.testing.assert_allclose(out, x * W + y, rtol=1e-6)


def test_wrong_arguments_are_refused(kernel: Kernel) -> None:
    x, y = inputs()
    read_only = np.empty((4, 16), np.float32)
    read_only.flags.writeable = False
    shifted = np.zeros(4 * 16 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(4, 16)
    cases: list[tuple[tuple[object, ...], object, str]] = [
        ((x,), None, "wrong number of arrays"),
        ((x, y, W), None, "wrong number of arrays"),
        ((x, y[:2]), None, r"argument 1 \(y\) has the wrong shape"),
        ((x.astype(np.float64), y), None, r"argument 0 \(x\) has the wrong dtype"),
        ((x.astype(">f4"), y), None, "wrong dtype"),
        ((np.asfortranarray(x), y), None, "not contiguous"),
        ((shifted, y), None, r"(?s)lies between the addresses.*multiple of 4 bytes.*array\.copy\(\)"),
        (([1, 2], y), None, r"argument 0 \(x\) is no array"),
        ((Wrapped(x, 2), y), None, "not in the memory of the CPU"),
        ((Nowhere(x), y), None, "not in the memory of the CPU"),
        ((Nothing(x), y), None, "there is no memory behind it"),
        ((x, y), Nothing(x), "there is no memory behind it"),
        ((np.ma.masked_array(x, x > 0), y), None, r"(?s)argument 0 \(x\) is a masked array.*array\.filled"),
        ((np.ma.masked_array(x), y), None, "masked array"),
        ((Masked(x), y), None, "masked array"),
        ((x, y), np.ma.masked_array(np.empty((4, 16), np.float32), True), "out .* is a masked array"),
        ((x, y), x, "shares memory"),
        ((x, y), read_only, "read-only"),
        ((x, y), (x, y), "wrong number of arrays in out="),
        ((x, y), np.empty((4, 15), np.float32), "out .* has the wrong shape"),
    ]
    for arrays, out, message in cases:
        with pytest.raises(ArgumentError, match=message):
            kernel(*arrays, out=out)


def test_wrong_constants_are_refused() -> None:
    artifact = scale_artifact()
    for constants in (None, {"v": W}, [W, W], {"w": W[:3]}, {"w": np.ma.masked_array(W, W > 0)}):
        with pytest.raises(ArgumentError, match="constant"):
            Kernel(artifact, constants)


def test_bf16_is_carried_as_bit_patterns() -> None:
    x, z = given("x", 4, dtype=bf16), result("z", 4, dtype=bf16)
    double = Kernel(assembled(program((x, z), serial(I, 4, store(z, (I,), read(x, I) + read(x, I)))), HOST, 1))
    bits = np.array([0x3F80, 0xC000, 0x7F80, 0x0001], np.uint16)
    assert double(bits).tolist() == [0x4000, 0xC080, 0x7F80, 0x0002]
    with pytest.raises(ArgumentError, match="dtype"):
        double(np.zeros(4, np.float32))


def test_texts() -> None:
    with pytest.raises(ArgumentError, match="was not kept"):
        Kernel(scale_artifact(), [W]).text("asm")
    kept = Kernel(scale_artifact(texts=True), [W], texts=lambda stage: f"the {stage}")
    assert "vmulps" in kept.text("asm") or HOST.kind != "x86"
    assert "define void @kernel(" in kept.text("llvm")
    assert kept.text("outline") == "the outline"
    with pytest.raises(ArgumentError, match="no stage"):
        kept.text("novel")


def test_several_threads_call_at_once(kernel: Kernel) -> None:
    """Each caller has inputs of its own; the workspace of one must not be seen by another."""
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x, y = (rng.standard_normal((4, 16)).astype(np.float32) for _ in range(2))
            if not np.allclose(kernel(x, y), x * W + y, rtol=1e-5):
                failures.append(f"caller {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_global_lock_is_released() -> None:
    """While a long kernel runs in one thread, another one makes progress."""
    z = result("z", 1)
    body = block(store(z, (0,), ZERO), serial(I, 60_000_000, update(z, (0,), "sum", index(1).cast(f32))))
    slow = Kernel(assembled(program((z,), body), HOST, 1))
    thread = threading.Thread(target=slow)
    thread.start()
    started, steps = time.perf_counter(), 0
    while thread.is_alive() and time.perf_counter() - started < 10:
        time.sleep(0.001)
        steps += 1
    thread.join()
    assert steps > 3


def test_call_overhead_and_time() -> None:
    x, y, z = given("x", 16), given("y", 16), result("z", 16)
    add = Kernel(assembled(program((x, y, z), lanes(L, 16, store(z, (L,), read(x, L) + read(y, L)))), HOST, 1))
    a = np.ones(16, np.float32)
    best = 1.0
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(100):
            add(a, a)
        best = min(best, (time.perf_counter() - started) / 100)
    assert best < 20e-6  # about 4 us on a quiet machine
    assert 0 < min(add.time() for _ in range(10)) < 1e-5  # one of them runs undisturbed


def test_aligned_memory() -> None:
    for size in (1, 63, 4096):
        array = aligned_array((size,), np.dtype(np.float32))
        assert address(array) % 64 == 0 and address(array) == array.ctypes.data and array.shape == (size,)
    assert address(CpuDevice().empty((1 << 16,), np.dtype(np.float32))) % 64 == 0


def test_kept_memory() -> None:
    for size in (1, 5000, 200_000, LARGE_PAGE + 1):
        memory = kept_memory(size)
        assert memory.shape == (size,) and address(memory) % 64 == 0
        memory[:] = 7  # all of it is there
        assert hasattr(mmap, "MADV_HUGEPAGE") is False or size < 1 << 17 or address(memory) % LARGE_PAGE == 0
    with pytest.raises(MemoryError):
        kept_memory(1 << 60)


@pytest.mark.parametrize(("size", "behind"), [(5000, 300), (200_000, 0), (200_000, 1000), (4096, 5 << 20)])
def test_memory_behind_what_is_kept_goes_back_to_the_system(size: int, behind: int) -> None:
    memory = kept_memory(size, behind)
    whole = np.ctypeslib.as_array((ctypes.c_uint8 * (size + behind)).from_address(address(memory)))
    whole[:] = 7
    release_behind(memory, behind)
    assert (memory == 7).all()
    assert size + behind < 1 << 20 or resident(address(memory) + (1 << 20), 4 << 20) == 0


def test_a_little_more_than_large_pages_takes_no_further_one() -> None:
    memory = kept_memory(LARGE_PAGE + 5000)
    memory[:] = 7
    assert resident(address(memory) + LARGE_PAGE, LARGE_PAGE) == 2


def test_pages_of_a_file_that_is_mapped_go_back_and_come_again(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random(1 << 20)
    values.tofile(tmp_path / "values")
    mapped = np.memmap(tmp_path / "values", np.float64, "r", 0, (1 << 20,))
    part = mapped[100:-100]
    assert np.array_equal(part, values[100:-100]) and rss(address(part)) > 4 << 20
    release_mapped(part)
    assert rss(address(part)) < 64 << 10
    assert np.array_equal(part, values[100:-100])
    release_mapped(values)  # which is no file: nothing happens
    assert np.array_equal(part, values[100:-100])


def rss(place: int) -> int:
    """Bytes in memory of the mapping that an address lies in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= place < int(found[2], 16)
        elif inside and line.startswith("Rss:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no such mapping")


def resident(start: int, size: int) -> int:
    """Pages of a range of addresses that lie in memory."""
    pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
    begin = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(begin), ctypes.c_size_t(size), pages) == 0
    return sum(page & 1 for page in pages)


def test_artifacts_that_do_not_belong_here_are_refused() -> None:
    from dataclasses import replace

    artifact = scale_artifact()
    for change, error, message in (
        ({"format": "ptx"}, TargetError, "no CPU code"),
        ({"target": "aarch64:neon"}, TargetError, "cannot run"),
        ({"code": b"nonsense"}, EnvironmentFailure, "could not be linked"),
    ):
        with pytest.raises(error, match=message):
            CpuDevice().load(replace(artifact, **change))
