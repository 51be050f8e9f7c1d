"""The emulator computes what kernels say, and catches what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.emulator import kernels
from helpers.emulator.launching import Array, code_of, compiled, run
from tilesmith.codegen.emulator.layout import STRUCTS, struct_bytes
from tilesmith.common.errors import InternalError, KernelFault, OutOfDeviceMemory, TargetError
from tilesmith.runtime.devices.emulator import MEMORY, emulator
from tilesmith.targets.target import parse_target

SEEDS = (0, 1, 2, 3)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).random(shape, np.float32)


def empty(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def test_structs_have_no_holes() -> None:
    for name, fields in STRUCTS.items():
        at = 0
        for kind in fields.values():
            size = 4 if kind == "i32" else 8
            assert at % size == 0, name
            at += size
        assert at % 8 == 0 and at == struct_bytes(name)


@pytest.mark.parametrize("seed", SEEDS)
def test_shared_memory_and_a_barrier(seed: int) -> None:
    x = numbers(64)
    assert (run(kernels.reverse(), [x], empty(64), 1, 64, 256, seed) == x[::-1]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_tiled_matmul(seed: int) -> None:
    a, b = numbers(32, 32), numbers(32, 32)
    assert np.allclose(run(kernels.matmul(), [a, b], empty(32, 32), 4, 256, 2048, seed), a @ b, atol=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_warp_shuffles(seed: int) -> None:
    x = numbers(64)
    found = run(kernels.warp_sum(), [x], empty(64), 1, 64, 0, seed)
    assert np.allclose(found, x.reshape(2, 32).sum(1).repeat(32), rtol=1e-5)


@pytest.mark.parametrize(("kind", "step", "clamp", "expected"), [
    ("down", 3, 31, lambda n: n + 3 if n + 3 < 32 else n),
    ("up", 3, 0, lambda n: n - 3 if n >= 3 else n),
    ("bfly", 5, 31, lambda n: n ^ 5),
    ("idx", 7, 31, lambda n: 7),
    ("idx", 2, 31 | 24 << 8, lambda n: n // 8 * 8 + 2),
    ("down", 3, 31 | 24 << 8, lambda n: n + 3 if n % 8 + 3 < 8 else n),
])  # fmt: skip
def test_lanes_of_shuffles_are_those_of_the_manual(kind: str, step: int, clamp: int, expected: object) -> None:
    x = np.arange(32, dtype=np.int32)
    found = run(kernels.shuffle(kind, step, clamp), [x], np.zeros(32, np.int32), 1, 32)
    assert list(found) == [expected(n) for n in range(32)]  # type: ignore[operator]


@pytest.mark.parametrize("step", [1, 16, 32, 63])
def test_a_warp_is_as_wide_as_its_target_says(step: int) -> None:
    wide, x = parse_target("amdgpu:emulator"), np.arange(128, dtype=np.int32)
    found = run(kernels.permuted(step), [x], np.zeros(128, np.int32), 1, 128, target=wide)
    assert list(found) == [n ^ step for n in range(128)], "both warps of 64 lanes keep to themselves"


def test_an_intrinsic_without_a_meaning_is_refused() -> None:
    for text in ("call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 true)", "call i32 @llvm.nvvm.read.ptx.sreg.clock()"):
        name, _, arguments = text.removeprefix("call i32 @").partition("(")
        declared = f"declare i32 @{name}({'i32, i1' if arguments != ')' else ''})"
        kernel = f"{declared}\ndefine ptx_kernel void @x(ptr %a) {{\n  %v = {text}\n  ret void\n}}"
        with pytest.raises(InternalError, match="does not know an instruction"):
            compiled(kernel)


def test_a_partial_warp_takes_part_with_the_lanes_that_it_has() -> None:
    x = np.arange(24, dtype=np.int32)
    found = run(kernels.shuffle("bfly", 1, 31), [x], np.zeros(24, np.int32), 1, 24)
    assert list(found) == [n ^ 1 for n in range(24)]


@pytest.mark.parametrize("seed", SEEDS)
def test_asynchronous_copies(seed: int) -> None:
    x = numbers(128)
    wanted = x.reshape(16, 2, 4)[:, ::-1].reshape(-1)
    assert (run(kernels.pipelined(), [x], empty(128), 1, 32, 512, seed) == wanted).all()


def test_guarded_vectors() -> None:
    x = numbers(10)
    assert (run(kernels.masked(10), [x], empty(10), 1, 3) == 2 * x).all()


def test_atomics() -> None:
    x = numbers(64)
    assert np.allclose(run(kernels.atomic_sum(), [x], empty(1), 2, 32), x.sum(), rtol=1e-5)


def test_private_arrays() -> None:
    x = numbers(8)
    assert (run(kernels.private(8), [x], empty(8), 1, 1) == x[::-1]).all()


# ---- planted faults


@pytest.mark.parametrize("seed", SEEDS)
def test_missing_barrier_is_a_race(seed: int) -> None:
    with pytest.raises(KernelFault, match=r"(?s)race .* kernel reverse.*thread \d+ of block 0.*with thread \d+"):
        run(kernels.reverse(barrier=False), [numbers(64)], empty(64), 1, 64, 256, seed)


@pytest.mark.parametrize("dropped", [0, 1])
@pytest.mark.parametrize("seed", SEEDS)
def test_each_missing_barrier_of_a_tiled_loop_is_a_race(seed: int, dropped: int) -> None:
    with pytest.raises(KernelFault, match="race"):
        run(kernels.matmul(drop=dropped), [numbers(32, 32)] * 2, empty(32, 32), 4, 256, 2048, seed)


def test_missing_barrier_in_a_sweep_without_checks_reads_nan() -> None:
    device = emulator(seed=1, races=False)
    from helpers.emulator.launching import artifact

    x = numbers(64)
    kernel = device.load(artifact(kernels.reverse(barrier=False), [x], [x], 1, 64, 256))
    arrays = [device.upload(x), device.upload(x)]
    kernel.run(arrays)
    assert np.isnan(arrays[1].numpy()).any()


def test_out_of_bounds_names_the_buffer() -> None:
    with pytest.raises(
        KernelFault, match=r"(?s)outside of a buffer in kernel matmul.*load float.*4096 of argument 0 \(x0\)"
    ):
        run(kernels.matmul(past=1), [numbers(32, 32)] * 2, empty(32, 32), 4, 256, 2048)


def test_too_little_shared_memory() -> None:
    with pytest.raises(KernelFault, match="shared memory, which has 128"):
        run(kernels.reverse(), [numbers(64)], empty(64), 1, 64, 128)


def test_masked_lanes_that_are_on_must_be_inside() -> None:
    with pytest.raises(KernelFault, match="outside"):
        run(kernels.masked(11), [numbers(10)], empty(11), 1, 3)


def test_private_arrays_are_bounded() -> None:
    with pytest.raises(KernelFault, match="private"):
        run(kernels.private(9), [numbers(9)], empty(9), 1, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_copy_without_wait_leaves_nan(seed: int) -> None:
    assert np.isnan(run(kernels.pipelined(wait=False), [numbers(128)], empty(128), 1, 32, 512, seed)).all()


def test_copy_that_is_too_short_leaves_nan() -> None:
    found = run(kernels.pipelined(bytes=4), [numbers(128)], empty(128), 1, 32, 512)
    assert np.isnan(found.reshape(-1, 4)[:, 1:]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_copy_without_barrier_is_a_race(seed: int) -> None:
    with pytest.raises(KernelFault, match="race"):
        run(kernels.pipelined(barrier=False), [numbers(128)], empty(128), 1, 32, 512, seed)


def test_misaligned_vector() -> None:
    with pytest.raises(KernelFault, match="misaligned"):
        run(kernels.vector_at(1), [numbers(8)], empty(4), 1, 1)


def test_barrier_in_divergent_flow() -> None:
    with pytest.raises(KernelFault, match=r"(?s)barrier that not all.*have ended"):
        run(kernels.divergent("end"), [numbers(32)], empty(32), 1, 32, 128)


def test_two_barriers_instead_of_one() -> None:
    with pytest.raises(KernelFault, match="barrier that not all"):
        run(kernels.divergent("other"), [numbers(32)], empty(32), 1, 32, 128)


def test_shuffle_in_divergent_flow_is_a_deadlock() -> None:
    with pytest.raises(KernelFault, match="wait for ever"):
        run(kernels.divergent("shuffle"), [numbers(32)], empty(32), 1, 32, 128)


def test_lane_outside_of_its_mask() -> None:
    with pytest.raises(KernelFault, match="mask"):
        run(kernels.warp_sum("65535"), [numbers(32)], empty(32), 1, 32)


def test_two_blocks_that_write_one_element() -> None:
    with pytest.raises(KernelFault, match=r"(?s)race.*argument 1 \(y0\)"):
        run(kernels.reverse(), [numbers(64)], empty(64), 2, 64, 256)


def test_write_to_an_input() -> None:
    with pytest.raises(KernelFault, match=r"(?s)write to an input.*argument 0"):
        run(kernels.writes_input(), [numbers(4)], empty(4), 1, 1)


def test_unknown_instruction_is_named() -> None:
    with pytest.raises(InternalError, match=r"(?s)does not know.*asm"):
        compiled(kernels.inline_assembly())


def test_invalid_text_is_refused() -> None:
    with pytest.raises(InternalError, match="not valid"):
        compiled("define ptx_kernel void @x(ptr %a) { ret i32 0 }")


def test_no_memory_left() -> None:
    with pytest.raises(OutOfDeviceMemory, match="memory"):
        emulator().empty((MEMORY,), np.dtype("f4"))


def test_code_of_another_kind_is_refused() -> None:
    from dataclasses import replace

    from helpers.emulator.launching import artifact

    one = artifact(kernels.reverse(), [numbers(64)], [empty(64)], 1, 64, 256)
    with pytest.raises(TargetError, match="emulator"):
        emulator().load(replace(one, format="ptx"))


def test_compiles_in_well_under_a_second() -> None:
    seconds = compiled(kernels.matmul(size=48)).seconds
    assert sum(seconds.values()) < 5  # about 0.2 s on a quiet machine
    assert code_of(kernels.reverse()) == code_of(kernels.reverse())
