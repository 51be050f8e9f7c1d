"""Kernels for AMD's GPUs: objects that LLVM makes of several kernels, and what is said where no device runs them."""

from __future__ import annotations

import re
import struct
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tilesmith
from helpers.gpu.candidates import body_of, picked, sketches
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import TargetError
from tilesmith.runtime.devices.choose import device_for
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

pytestmark = pytest.mark.usefixtures("whole_drafts")
TARGET = parse_target("amdgpu:gfx942")
AMDGPU_MACHINE = 224  # EM_AMDGPU of ELF
PROGRAMS: dict[str, Program] = {
    "matmul": ops.matmul(512, 512, 512),
    "softmax": ops.softmax(512, 1024),
    "row sum": ops.row_sum(1024, 4096),
    "transpose": ops.transpose(512, 256),
    "convolution": ops.conv2d(1, 32, 28, 28, 32, padding=1),
    "f16": ops.matmul_bias_relu(128, 128, 64, dtype="f16"),
    "bf16": ops.matmul(128, 128, 64, dtype="bf16"),
    "f64": ops.row_sum(64, 4096, dtype="f64"),
    "table": parse("input x: f32[3]\ntable w: f32[3] = [1, 2, 3]\nt[i: 3] = x[i] + w[2 - i]\nreturn t"),
    "private": ops.cumsum((64, 64)),
}


@cache
def made(name: str) -> Artifact:
    """What `compile` takes where there is no record."""
    body = body_of(PROGRAMS[name])
    sketch, values = picked(body, TARGET)
    return build(body, sketch, values, TARGET, 1, texts=True)


def instructions(name: str) -> set[str]:
    """The names of all instructions of a kernel."""
    return set(re.findall(r"^\t((?:v|s|ds|global|flat|scratch|buffer)_\w+)", made(name).texts["asm"], re.MULTILINE))


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_object_with_each_kernel(name: str) -> None:
    artifact = made(name)
    assert artifact.format == "elf" and artifact.code[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", artifact.code, 18) == (AMDGPU_MACHINE,)
    for launch in artifact.launches:
        assert f"{launch.symbol}.kd\0".encode() in artifact.code, "the descriptor that a driver starts"
        of_kernel = re.search(
            rf"\.amdhsa_kernel {launch.symbol}\n(.*?)\.end_amdhsa_kernel", artifact.texts["asm"], re.DOTALL
        )
        assert of_kernel is not None and "amdhsa_ieee_mode 1" in of_kernel[1]
    text = artifact.texts["asm"]
    assert re.findall(r"\.wavefront_size: (\d+)", text) == ["64"] * len(artifact.launches)
    blocks = [str(launch.block[0]) for launch in artifact.launches]
    assert re.findall(r"\.max_flat_workgroup_size: (\d+)", text) == blocks
    assert set(re.findall(r"\.vgpr_spill_count: +(\d+)", text)) == {"0"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_access_knows_its_memory(name: str) -> None:
    """Generic addresses would be looked up in each access, and would wait for both kinds of memory."""
    assert not {one for one in instructions(name) if one.startswith(("flat_", "scratch_", "buffer_"))}


def test_what_the_kernels_are_made_of() -> None:
    tiles = instructions("matmul")
    assert {"v_pk_fma_f32", "global_load_dwordx4", "ds_read_b128", "ds_write_b128", "s_barrier"} <= tiles
    assert {"ds_bpermute_b32", "v_max_f32_e32"} <= instructions("softmax")
    assert {"ds_bpermute_b32"} <= instructions("row sum")
    assert "s_barrier" in instructions("transpose") and any(
        one.startswith("ds_write") for one in instructions("transpose")
    )
    assert "llvm.nvvm" not in "".join(made(name).texts["llvm"] for name in PROGRAMS)


def test_a_sum_over_a_wavefront_takes_six_shuffles() -> None:
    body = body_of(ops.row_sum(64, 4096))
    by_warp = next(sketch for sketch in sketches(body, TARGET) if "warp" in sketch.title)
    values = {"t0.warps": 4, "t0.threads": 64, "t0.vector": 4, "t0.items": 2}
    text = build(body, by_warp, values, TARGET, 1, texts=True).texts["asm"]
    masks = {int(found, 0) for found in re.findall(r"v_xor_b32_e32 v\d+, (0x\w+|\d+), v\d+", text)}
    assert {4, 8, 16, 32, 64, 128} <= masks, "lanes are counted in bytes"
    assert text.count("ds_bpermute_b32") == 6 and "global_load_dwordx4" in text


def test_what_llvm_does_not_know_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from tilesmith.codegen.backends.gpu import machine
    from tilesmith.targets.isa import BACKENDS

    known = BACKENDS["amdgpu"]
    newer = replace(known, levels=(*known.levels, replace(known.levels[0], name="gfx999", llvm_cpu="gfx999")))
    monkeypatch.setattr("tilesmith.targets.target.BACKENDS", {**BACKENDS, "amdgpu": newer})
    with pytest.raises(TargetError, match="this LLVM knows no gfx999"):
        machine(parse_target("amdgpu:gfx999"))


def test_kernels_are_looked_at_anywhere_and_called_nowhere(tmp_path: Path) -> None:
    kernel = tilesmith.compile(ops.relu(4096), target="amdgpu:gfx942", db=tmp_path / "none.sqlite")
    assert ".amdgcn_target" in kernel.text("asm") and "amdgpu_kernel" in kernel.text("llvm")
    with pytest.raises(TargetError, match=r"(?s)amdgpu:gfx942.*an AMD device that runs gfx942.*driver"):
        kernel(np.zeros(4096, np.float32))
    with pytest.raises(TargetError, match="an AMD device that runs gfx942"):
        device_for(kernel.artifact)


def test_a_search_without_a_device_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="an AMD device that runs gfx942"):
        tilesmith.tune(ops.relu(4096), target="amdgpu:gfx942", trials=2, db=tmp_path / "none.sqlite")


def test_a_kernel_is_compiled_and_called_in_the_emulator(tmp_path: Path) -> None:
    kernel = tilesmith.compile(ops.softmax(5, 200), target="amdgpu:emulator", db=tmp_path / "none.sqlite")
    x = np.random.default_rng(0).normal(size=(5, 200)).astype(np.float32)
    wanted = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(kernel(x), wanted / wanted.sum(1, keepdims=True), rtol=2e-6)
    assert kernel.device.name == "amdgpu:emulator" and ".amdgcn_target" in kernel.text("asm")
