"""The calibration loops do what they say, and the figures hang together and are kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tilesmith.codegen.backends.cpu import compile_object
from tilesmith.common.errors import TargetError
from tilesmith.measure.calibrate import calibrate
from tilesmith.measure.calibrate.loops import (
    STEP,
    STREAMS,
    SUMS,
    TILE_PRODUCTS,
    VISIT_STRIDE,
    Stream,
    accumulators,
    arithmetic_loop,
    matrix_loop,
    stream_loop,
    visiting_loop,
)
from tilesmith.measure.machine import machine_identity, machine_key
from tilesmith.runtime.devices.cpu.memory import aligned_array
from tilesmith.targets.ceilings import MATRIX, Ceilings, default_ceilings
from tilesmith.targets.matrix_instructions import BF16_TILES
from tilesmith.targets.matrix_unit import allow_matrix_unit, tile_configuration
from tilesmith.targets.target import parse_target

HOST = parse_target("host")
BYTES = 4 * STEP * HOST.vector_bits // 8  # four trips of the inner loop


def floats(count: int) -> np.ndarray:
    return aligned_array((count,), np.dtype(np.float32))


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: s.name)
def test_a_stream_touches_all_its_bytes(stream: Stream) -> None:
    kernel = calibrate._load(HOST, stream.name, stream_loop(HOST, stream))
    count = BYTES // 4
    buffer = floats(stream.streams * count + 16)
    buffer[:] = np.arange(buffer.size)
    before = buffer.copy()
    numbers = calibrate._numbers(BYTES, 3)
    kernel.run([buffer, numbers])
    reads = [before[s * count : (s + 1) * count] for s in range(stream.reads)]
    if stream.in_place:
        assert np.array_equal(buffer[:count], -before[:count])  # three times
        assert np.array_equal(buffer[count:], before[count:])
    elif stream.writes:
        wanted = reads[0] + reads[1] / 2 if len(reads) == 2 else reads[0] if reads else np.ones(count)
        assert np.array_equal(buffer[stream.reads * count : stream.streams * count], wanted)
        assert np.array_equal(buffer[stream.streams * count :], before[stream.streams * count :])
    else:
        vector = HOST.vector_bits // 32
        lanes = numbers.view(np.float32)[vector : vector * (STEP + 1)]
        assert lanes.sum() == 3 * reads[0].sum()


@pytest.mark.parametrize("pages", [1, 3])
def test_a_visit_reads_one_vector_of_each_line(pages: int) -> None:
    """Of two blocks of so many pages, with what lies between the pages."""
    size, line = 2 * pages * VISIT_STRIDE, HOST.caches[0].line
    kernel = calibrate._load(HOST, "visit", visiting_loop(HOST, pages))
    buffer = floats(size // 4 + 16)
    buffer[:] = np.arange(buffer.size) % 7
    numbers = calibrate._numbers(size, 2)
    kernel.run([buffer, numbers])
    vector = HOST.vector_bits // 32
    read = buffer[: size // 4].reshape(-1, line // 4)[:, :vector]
    assert numbers.view(np.float32)[vector : 2 * vector].tolist() == (2 * read.sum(axis=0)).tolist()


def test_no_line_of_the_memory_is_all_zeros() -> None:
    lines = calibrate._touched(300_032).reshape(-1, 64)
    assert lines.any(axis=1).all()


@pytest.mark.parametrize(("dtype", "loaded"), [("f32", False), ("f64", False), ("f32", True)])
def test_the_arithmetic_is_done(dtype: str, loaded: bool) -> None:
    kernel = calibrate._load(HOST, "flops", arithmetic_loop(HOST, dtype, loaded))
    kind = np.float32 if dtype == "f32" else np.float64
    lanes = HOST.vector_bits // 8 // np.dtype(kind).itemsize
    buffer = aligned_array(((accumulators(HOST) + 2) * lanes,), np.dtype(kind))
    buffer[:] = 0.5
    kernel.run([buffer, np.array([0, 2], np.int64)])
    assert np.allclose(buffer[2 * lanes :], 1.0, atol=1e-6), "x * 0.5 + 0.5, again and again, goes to 1"


HAS_MATRIX_UNIT = HOST.has_matrix_unit and allow_matrix_unit()


@pytest.mark.skipif(not HAS_MATRIX_UNIT, reason="no matrix unit here")
def test_the_products_of_tiles_are_made() -> None:
    kernel = calibrate._load(HOST, "tiles", matrix_loop())
    rng = np.random.default_rng(2)
    rows, words = (rng.integers(-8, 9, (16, 32)).astype(np.float32) for _ in range(2))  # exact in bfloat16
    buffer = aligned_array(((3 + SUMS) * 1024,), np.dtype(np.uint8))
    buffer[:64] = np.frombuffer(tile_configuration(BF16_TILES), np.uint8)
    for tile, values in ((1, rows), (2, words)):
        buffer[tile * 1024 : (tile + 1) * 1024].view(np.uint16)[:] = values.reshape(-1).view(np.uint32) >> 16
    kernel.run([buffer, np.array([0, 3], np.int64)])
    columns = words.reshape(16, 16, 2).transpose(0, 2, 1).reshape(32, 16)  # word l holds the elements 2 l and 2 l + 1
    found = buffer[3 * 1024 :].view(np.float32).reshape(SUMS, 16, 16)
    assert np.array_equal(found, np.broadcast_to(3 * TILE_PRODUCTS * (rows @ columns), found.shape))


def test_the_loop_of_the_matrix_unit_compiles_and_touches_no_memory() -> None:
    target = parse_target("x86:avx512+amx")
    asm = compile_object(matrix_loop(), target, texts=True).asm
    body = asm[: asm.index(".Lfunc_end0:")]
    assert body.count("tdpbf16ps") == SUMS * TILE_PRODUCTS and body.count("tileloadd") == 2


@pytest.mark.skipif(not HAS_MATRIX_UNIT, reason="no matrix unit here")
def test_the_matrix_unit_is_several_times_as_fast_as_vectors() -> None:
    with calibrate.Loops(HOST, 1, 2e-4, 2) as measured:
        tries = ((measured.matrix(), measured.arithmetic("f32")) for _ in range(5))  # others may use this machine too
        assert any(4 < matrix / vectors < 40 for matrix, vectors in tries)


def test_figures_kept_without_a_matrix_unit_get_its_usual_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path))
    target = parse_target("x86:avx512+amx")
    usual = default_ceilings(target, 1)
    older = Ceilings({"f32": usual.flops["f32"] * 1.5}, ((1 << 14, 1e9),), 1)
    calibrate._keep(calibrate._path(target, 1), older.to_json())
    found = calibrate.known_ceilings(target, 1)
    assert found.flops["f32"] == older.flops["f32"] and found.flops[MATRIX] == pytest.approx(1.5 * usual.flops[MATRIX])
    assert (
        usual.flops[MATRIX] < 3e9 * BF16_TILES.operations / BF16_TILES.cycles
        and MATRIX not in default_ceilings(parse_target("x86:avx512"), 1).flops
    )


@pytest.mark.parametrize("text", ["x86:avx512", "x86:avx2", "x86:sse2", "aarch64:neon"])
def test_the_loops_compile_for_other_targets(text: str) -> None:
    target = parse_target(text)
    for ir in (arithmetic_loop(target, "f32"), *(stream_loop(target, s) for s in STREAMS)):
        assert compile_object(ir, target).code


def test_the_arithmetic_stays_in_registers() -> None:
    asm = compile_object(arithmetic_loop(parse_target("x86:avx512"), "f32"), parse_target("x86:avx512"), texts=True).asm
    body = asm[: asm.index(".Lfunc_end0:")]
    multiplies = [line for line in body.splitlines() if "vfmadd" in line]
    assert len(multiplies) == 16 * 64 and not any("(%r" in line for line in multiplies)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "_SHORTEST", 2e-4)
    monkeypatch.setattr(calibrate, "_SAMPLES", 2)


def test_the_figures_hang_together(hasty: None) -> None:
    found = calibrate.measure_ceilings(HOST, 1)
    speeds = [speed for _, speed in found.bandwidth]
    assert speeds == sorted(speeds, reverse=True) and 1e9 < speeds[-1] < speeds[0] < 1e13
    assert 1.5 < found.flops["f32"] / found.flops["f64"] < 2.7
    assert found.flops["i8"] > found.flops["f32"] > 1e9 and found.threads == 1
    assert [pages for pages, _ in found.visits] == [16, 256, 4096]
    assert all(1e-10 < seconds < 1e-6 for _, seconds in found.visits)
    assert found.bandwidth[-1][0] > max(cache.bytes for cache in HOST.caches)


def test_two_threads_do_not_wait_for_each_other(hasty: None) -> None:
    found = calibrate.measure_ceilings(HOST, 2)
    assert found.threads == 2 and found.flops["f32"] > 1e9


def test_ceilings_are_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path))
    calls: list[int] = []

    def fake(target: object, threads: int) -> Ceilings:
        calls.append(threads)
        usual = default_ceilings(HOST, threads).flops
        return Ceilings({**usual, "f32": 1e9 * threads, MATRIX: 8e9}, ((1 << 14, 1e9),), threads)

    monkeypatch.setattr(calibrate, "_in_child", fake)
    assert calibrate.known_ceilings(HOST, 1) == default_ceilings(HOST, 1) and calls == []
    one = calibrate.ceilings(HOST, 1)
    assert calibrate.known_ceilings(HOST, 1) == one
    assert calibrate.ceilings(HOST, 1) == one and calls == [1]
    assert calibrate.ceilings(HOST, 2) != one and calls == [1, 2]
    (path,) = (tmp_path / "ceilings").glob("*-1-v*.json")
    path.write_text("{ half a fi")
    assert calibrate.ceilings(HOST, 1) == one and calls == [1, 2, 1]
    assert Ceilings.from_json(path.read_text()) == one
    path.write_text(Ceilings({"f32": 2e9}, ((1 << 14, 1e9),), 1).to_json())  # as an older version kept it
    found, usual = calibrate.ceilings(HOST, 1), default_ceilings(HOST, 1).flops
    assert set(found.flops) == set(usual) and found.flops["i32"] == pytest.approx(2e9 * usual["i32"] / usual["f32"])


def test_a_child_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    event = calibrate._in_child(HOST, 1)
    assert event.threads == 1 and event.flops["f32"] > 1e9


def test_another_target_is_refused() -> None:
    elsewhere = parse_target("aarch64:neon")
    with pytest.raises(TargetError):
        calibrate.ceilings(elsewhere, 1)
    assert calibrate.known_ceilings(elsewhere, 1) == default_ceilings(elsewhere, 1)


def test_the_machine_is_its_processor_not_its_name() -> None:
    identity = machine_identity()
    told = json.loads(identity)
    assert machine_identity() == identity and machine_key(identity) == machine_key(identity)
    assert set(told) == {"architecture", "model", "features", "cores", "caches"}
    assert machine_key(identity) != machine_key(identity.replace(told["architecture"], "other"))


class Disturbed(calibrate.Loops):
    """Loops on a machine of which a neighbour takes half, until arithmetic was timed so often."""

    until = 0

    def __init__(self, *args: object) -> None:
        super().__init__(HOST, 1, 2e-5, 1)
        self.timed = 0

    @property
    def share(self) -> float:
        return 0.5 if self.timed < self.until else 1.0

    def arithmetic(self, dtype: str, loaded: bool = False) -> float:
        self.timed += 1
        return 4e9 * self.share

    def matrix(self) -> float:
        return 8e9 * self.share

    def speed(self, stream: Stream, size: int) -> float:
        return 1e9 * self.share

    def visit(self, pages: int) -> float:
        return 1e-8 / self.share


@pytest.mark.parametrize(("until", "rounds"), [(0, 1), (3, 2), (5, 3), (6, 3), (1000, 1)])
def test_what_a_neighbour_disturbs_is_measured_again(monkeypatch: pytest.MonkeyPatch, until: int, rounds: int) -> None:
    """Arithmetic is timed three times before a round and three times behind it."""
    monkeypatch.setattr(Disturbed, "until", until)
    made: list[Disturbed] = []

    def loops(*args: object) -> Disturbed:
        made.append(Disturbed(*args))
        return made[0]

    monkeypatch.setattr(calibrate, "Loops", loops)
    found = calibrate.measure_ceilings(HOST, 1)
    share = 0.5 if until == 1000 else 1.0
    assert found.flops["f32"] == 4e9 * share and found.bandwidth[0][1] == found.bandwidth[-1][1] == 1e9 * share
    assert dict(found.visits)[16] == pytest.approx(1e-8 / share)
    assert made[0].timed == 3 + 3 * rounds


def test_ceilings_that_are_too_low_rise_and_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path))
    monkeypatch.setattr(calibrate, "Loops", Disturbed)
    curve = ((1 << 14, 5e8), (1 << 20, 4e8))
    known = Ceilings({"f32": 2e9, "f64": 9e9, "i8": 1e9}, curve, 1, {"read": curve, "write": ((1 << 14, 7e9),)})
    found = calibrate.measured_again(HOST, known)
    assert found.flops["f32"] == 4e9 and found.flops["f64"] == 9e9 and found.flops["i8"] > 1e9
    assert found.bandwidth == found.streams["read"] == ((1 << 14, 1e9), (1 << 20, 4e8))
    assert found.streams["write"] == known.streams["write"]
    assert calibrate.known_ceilings(HOST, 1).flops["f32"] == 4e9
