"""The processor that tests play (helpers/bochs): what its unit of tiles computes, and that nothing wrong passes unseen.

The unit is held to Intel's manual by sums that are written here once more, element by element."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.bochs.machine import Fault, Machine, Region
from helpers.bochs.objects import link
from tilesmith.codegen.backends.cpu import compile_object
from tilesmith.targets.matrix_instructions import BF16_TILES
from tilesmith.targets.matrix_unit import tile_configuration
from tilesmith.targets.target import parse_target

TARGET = parse_target("x86:avx512+amx")
SIDE = 16
SIGNS = {"tdpbuud": ("u1", "u1"), "tdpbusd": ("u1", "i1"), "tdpbsud": ("i1", "u1"), "tdpbssd": ("i1", "i1")}
Array = NDArray[np.generic]


def products(instruction: str, tiles: int = 1, pitch: int = 64, extra: str = "") -> str:
    """A function that makes sums of products of each of some tiles with each of some others."""
    return f"""
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tilestored64(i8, ptr, i64)
declare void @llvm.x86.{instruction}(i8, i8, i8)
define void @f(ptr %shapes, ptr %a, ptr %b, ptr %c) {{
entry:
  call void @llvm.x86.ldtilecfg(ptr %shapes)
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
  %i = udiv i64 %n, {tiles}
  %j = urem i64 %n, {tiles}
  %ia = mul i64 %i, 1024
  %ja = mul i64 %j, 1024
  %na = mul i64 %n, 1024
  %x = getelementptr i8, ptr %a, i64 %ia
  %y = getelementptr i8, ptr %b, i64 %ja
  %z = getelementptr i8, ptr %c, i64 %na
  call void @llvm.x86.tileloadd64(i8 0, ptr %z, i64 64)
  call void @llvm.x86.tileloadd64(i8 1, ptr %x, i64 {pitch})
  call void @llvm.x86.tileloadd64(i8 2, ptr %y, i64 64)
  call void @llvm.x86.{instruction}(i8 0, i8 1, i8 2)
  call void @llvm.x86.tilestored64(i8 0, ptr %z, i64 64)
  {extra}
  %next = add i64 %n, 1
  %again = icmp ult i64 %next, {tiles * tiles}
  br i1 %again, label %loop, label %done
done:
  call void @llvm.x86.tilerelease()
  ret void
}}
"""


def play(ir: str, *arrays: Array, shapes: bytes = tile_configuration(BF16_TILES)) -> list[Array]:
    """What is in the arrays after a call."""
    with Machine() as machine:
        symbols = link(machine, [compile_object(ir, TARGET).code])

        def placed(array: Array) -> Region:
            region = machine.region("array", array.nbytes)
            region.memory[: array.nbytes] = array.reshape(-1).view(np.uint8)
            return region

        regions = [placed(array) for array in (np.frombuffer(shapes, np.uint8), *arrays)]
        machine.call(symbols["f"], *(region.address for region in regions))
        found = [(r.memory[: a.nbytes], a) for r, a in zip(regions[1:], arrays, strict=True)]
        return [memory.view(array.dtype).reshape(array.shape).copy() for memory, array in found]


@pytest.mark.parametrize("instruction", SIGNS)
def test_every_product_of_two_bytes(instruction: str) -> None:
    """Row m of tile i holds the byte 16 i + m in one place, column n of tile j the byte 16 j + n."""
    left, right = SIGNS[instruction]
    for place in (0, 5, 63):
        a, b = np.zeros((16, 16, 64), np.uint8), np.zeros((16, 16, 16, 4), np.uint8)
        a[:, :, place] = np.arange(256).reshape(16, 16)
        b[:, place // 4, :, place % 4] = np.arange(256).reshape(16, 16)
        sums = np.zeros((16, 16, 16, 16), np.int32)
        *_, found = play(products(instruction, 16), a, b, sums)
        x, y = (np.arange(256, dtype=np.uint8).view(kind).astype(np.int32) for kind in (left, right))
        np.testing.assert_array_equal(found.transpose(0, 2, 1, 3).reshape(256, 256), np.outer(x, y))


@pytest.mark.parametrize("instruction", SIGNS)
def test_sums_of_bytes_are_modulo_2_to_the_32(instruction: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, shape, np.uint8) for shape in ((16, 64), (16, 16, 4)))
    sums = rng.integers(-(2**31), 2**31, (16, 16)).astype(np.int32)
    sums[0] = [2**31 - 1, -(2**31)] * 8
    *_, found = play(products(instruction), a, b, sums)
    x, y = (array.view(kind).astype(int) for array, kind in zip((a, b), SIGNS[instruction], strict=True))
    for m, n in product(range(16), repeat=2):
        total = int(sums[m, n]) + sum(int(x[m, k]) * int(y[k // 4, n, k % 4]) for k in range(64))
        assert int(found[m, n]) == (total + 2**31) % 2**32 - 2**31


def test_sums_of_bfloat16() -> None:
    """Even and odd elements apart, in their order, each step rounded; then both together, then the sum that was there."""
    rng = np.random.default_rng(1)
    for kind in ("ordinary", "small", "special"):
        x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 32), (16, 16, 2)))
        total = rng.standard_normal((16, 16)).astype(np.float32)
        if kind == "small":
            x, y, total = x * np.float32(2.0**-62), y * np.float32(2.0**-63), total * np.float32(2.0**-126)
            x[0, :4] = 1e-40
        if kind == "special":
            x[0, 0], x[1, 1], y[3, 4, 1], x[2, 6] = np.inf, np.nan, -np.inf, 3e38
            y[3, :, 0] = 3e38
        a, b = (array.view(np.uint32) >> 16 for array in (x, y))
        *_, found = play(products("tdpbf16ps"), a.astype(np.uint16), b.astype(np.uint16), total)
        x, y = ((array << 16).astype(np.uint32).view(np.float32) for array in (a, b))
        with np.errstate(all="ignore"):
            for m, n in product(range(16), repeat=2):
                parts = [np.float32(0), np.float32(0)]
                for k in range(32):
                    term = float(flushed(x[m, k])) * float(flushed(y[k // 2, n, k % 2]))
                    parts[k % 2] = flushed(np.float32(float(parts[k % 2]) + term))
                expected = flushed(flushed(total[m, n]) + flushed(parts[0] + parts[1]))
                np.testing.assert_array_equal(found[m, n], expected)


def flushed(value: np.float32) -> np.float32:
    return np.float32(np.copysign(0, value)) if abs(value) < np.float32(2.0**-126) else value


BYTES = np.zeros((16, 64), np.uint8)
SUMS = np.zeros((16, 16), np.int32)


FAR = "%far = getelementptr i8, ptr %c, i64 4096\nstore i8 1, ptr %far"
PLAIN = products("tdpbssd")
TRAP = products("tdpbssd", extra="call void @llvm.trap()").replace("declare", "declare void @llvm.trap()\ndeclare", 1)
REFUSED = {
    "a tile beyond an array": (products("tdpbssd", pitch=1 << 14), "page fault, reading 64 bytes of a tile"),
    "code": (products("tdpbssd", extra="store i8 1, ptr @f"), "page fault, writing .*section"),
    "a byte beyond an array": (products("tdpbssd", extra=FAR), r"page fault, writing .*\+0x1000"),
    "a unit that is kept": (PLAIN.replace("call void @llvm.x86.tilerelease()", ""), "was not given back"),
    "no shapes": (PLAIN.replace("call void @llvm.x86.ldtilecfg(ptr %shapes)", ""), "the tile 0 has no shape"),
    "one tile twice": (PLAIN.replace("tdpbssd(i8 0, i8 1", "tdpbssd(i8 0, i8 2"), "the same"),
    "no instruction": (TRAP, "invalid instruction.*0f 0b"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_processor_refuses_is_found(name: str) -> None:
    play(PLAIN, BYTES, BYTES, SUMS)
    ir, message = REFUSED[name]
    with pytest.raises(Fault, match=message):
        play(ir, BYTES, BYTES, SUMS)


def test_a_configuration_that_the_unit_does_not_take_is_refused() -> None:
    for wrong in (bytes([2]), bytes([1, 0, 1])):
        shapes = wrong + tile_configuration(BF16_TILES)[len(wrong) :]
        with pytest.raises(Fault, match="a configuration"):
            play(products("tdpbssd"), BYTES, BYTES, SUMS, shapes=shapes)


def test_other_instructions_of_narrow_elements_run() -> None:
    """The vectors of AVX-512: bytes, bfloat16, halves. (This machine may have none of them.)"""
    ir = """
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define void @f(ptr %shapes, ptr %a, ptr %b, ptr %c) {
  %x = load <32 x bfloat>, ptr %a
  %y = load <32 x bfloat>, ptr %b
  %s = load <16 x float>, ptr %c
  %t = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %s, <32 x bfloat> %x, <32 x bfloat> %y)
  store <16 x float> %t, ptr %c
  ret void
}
"""
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-8, 8, 32).astype(np.float32) for _ in range(2))
    halves = [(array.view(np.uint32) >> 16).astype(np.uint16) for array in (x, y)]
    with Machine() as machine:
        code = compile_object(ir, parse_target("x86:avx512+avx512bf16")).code
        symbols = link(machine, [code])
        regions = [machine.region("array", 64) for _ in range(4)]
        for region, array in zip(regions[1:3], halves, strict=True):
            region.memory[:64] = array.view(np.uint8)
        machine.call(symbols["f"], *(region.address for region in regions))
        found = regions[3].memory[:64].view(np.float32)
    np.testing.assert_array_equal(found, (x * y).reshape(16, 2).sum(axis=1))
