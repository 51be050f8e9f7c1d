"""The calibration loops do what they say, and the figures hang together and are kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tilesmith.codegen.cpu import compile_object
from tilesmith.common.errors import TargetError
from tilesmith.measure import calibrate
from tilesmith.measure.loops import STEP, STREAMS, Stream, accumulators, arithmetic_loop, stream_loop
from tilesmith.measure.machine import machine_identity, machine_key
from tilesmith.runtime.devices.memory import aligned_array
from tilesmith.targets.ceilings import Ceilings, default_ceilings
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
    if stream.writes:
        wanted = reads[0] + 3 * reads[1] if len(reads) == 2 else reads[0] if reads else np.zeros(count)
        assert np.array_equal(buffer[stream.reads * count : stream.streams * count], wanted)
        assert np.array_equal(buffer[stream.streams * count :], before[stream.streams * count :])
    else:
        vector = HOST.vector_bits // 32
        lanes = numbers.view(np.float32)[vector : vector * (STEP + 1)]
        assert lanes.sum() == 3 * reads[0].sum()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_arithmetic_is_done(dtype: str) -> None:
    kernel = calibrate._load(HOST, "flops", arithmetic_loop(HOST, dtype))
    kind = np.float32 if dtype == "f32" else np.float64
    lanes = HOST.vector_bits // 8 // np.dtype(kind).itemsize
    buffer = aligned_array(((accumulators(HOST) + 2) * lanes,), np.dtype(kind))
    buffer[:] = 0.5
    kernel.run([buffer, np.array([0, 2], np.int64)])
    assert np.allclose(buffer[2 * lanes :], 1.0, atol=1e-6), "x * 0.5 + 0.5, again and again, goes to 1"


@pytest.mark.parametrize("text", ["x86:avx512", "x86:avx2", "x86:sse2", "aarch64:neon"])
def test_the_loops_compile_for_other_targets(text: str) -> None:
    target = parse_target(text)
    for ir in (arithmetic_loop(target, "f32"), *(stream_loop(target, s) for s in STREAMS)):
        assert compile_object(ir, target).code


def test_the_arithmetic_stays_in_registers() -> None:
    asm = compile_object(arithmetic_loop(parse_target("x86:avx512"), "f32"), parse_target("x86:avx512"), texts=True).asm
    body = asm[: asm.index("flops_repeat:")]
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
    assert found.bandwidth[-1][0] > max(cache.bytes for cache in HOST.caches)


def test_two_threads_do_not_wait_for_each_other(hasty: None) -> None:
    found = calibrate.measure_ceilings(HOST, 2)
    assert found.threads == 2 and found.flops["f32"] > 1e9


def test_ceilings_are_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path))
    calls: list[int] = []

    def fake(target: object, threads: int) -> Ceilings:
        calls.append(threads)
        return Ceilings({"f32": 1e9 * threads}, ((1 << 14, 1e9),), threads)

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
