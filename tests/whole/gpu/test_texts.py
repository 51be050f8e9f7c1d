"""A program can be compiled for a GPU and looked at where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilesmith
from helpers.gpu.assembler import PTXAS
from tilesmith.codegen.backends.sass import sass, tool
from tilesmith.common.errors import ArgumentError, TargetError
from tilesmith.runtime.kernel import text_stages
from tilesmith.targets.cuda.devices import device_capabilities
from tilesmith.targets.isa import BACKENDS
from tilesmith.targets.target import parse_target


def test_every_text_without_a_gpu(tmp_path: Path) -> None:
    kernel = tilesmith.compile(tilesmith.ops.relu(4096), target="cuda:sm_90a", db=tmp_path / "none.sqlite")
    texts = {stage: kernel.text(stage) for stage in text_stages(parse_target(kernel.artifact.target))}
    assert ".target sm_90a" in texts["ptx"] and ".visible .entry relu_f32_4096_0(" in texts["ptx"]
    assert "define ptx_kernel void @relu_f32_4096_0(" in texts["llvm"]
    assert "of 1 blocks" in texts["loops"] or "blocks of" in texts["loops"]
    assert texts["sass"]
    with pytest.raises(ArgumentError, match="no stage 'asm'"):
        kernel.text("asm")
    assert {"lower", "emit", "parse", "optimize", "code"} <= kernel.artifact.seconds.keys()


@pytest.mark.skipif((9, 0) in device_capabilities(), reason="here is a device that runs it")
def test_a_kernel_says_what_it_misses_when_it_is_called(tmp_path: Path) -> None:
    kernel = tilesmith.compile(tilesmith.ops.relu(64), target="cuda:sm_90a", db=tmp_path / "none.sqlite")
    with pytest.raises(TargetError, match="cuda:sm_90a"):
        kernel(np.zeros(64, np.float32))
    with pytest.raises(TargetError, match="cuda:sm_90a"):
        kernel.time()


@pytest.mark.skipif(PTXAS is None or tool("nvdisasm") is None, reason="ptxas or nvdisasm is not installed")
def test_machine_code_where_there_is_a_disassembler(tmp_path: Path) -> None:
    kernel = tilesmith.compile(tilesmith.ops.relu(4096), target="cuda:sm_80", db=tmp_path / "none.sqlite")
    assert "STG.E" in kernel.text("sass")
    assert sass("this is no PTX", "sm_80") is None


def test_a_target_that_nobody_knows_is_one_clear_error() -> None:
    with pytest.raises(TargetError, match=r"unknown target 'cuda:sm_999'") as caught:
        tilesmith.compile(tilesmith.ops.relu(64), target="cuda:sm_999")
    assert "cuda:sm_90a" in str(caught.value.expected)


def test_a_target_newer_than_llvm_knows_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that was added here, and that the installed LLVM has no code generator for: LLVM itself would fall back silently."""
    known = BACKENDS["cuda"]
    newer = replace(known.levels[-2], name="sm_999", llvm_cpu="sm_999")
    kinds = {**BACKENDS, "cuda": replace(known, levels=(*known.levels, newer))}
    monkeypatch.setattr("tilesmith.targets.isa.BACKENDS", kinds)
    monkeypatch.setattr("tilesmith.targets.target.BACKENDS", kinds)
    with pytest.raises(TargetError, match="this LLVM knows no sm_999") as caught:
        tilesmith.compile(tilesmith.ops.relu(64), target="cuda:sm_999", db=tmp_path / "none.sqlite")
    assert "LLVM" in str(caught.value.found) and "older architecture" in str(caught.value.advice)
