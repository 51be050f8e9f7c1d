"""Backends are descriptions: what they say is what LLVM knows, and nothing outside of them asks for one by its name."""

from __future__ import annotations

import ast
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from helpers.source import ROOT, modules
from tilesmith.codegen.ir.verify_nest import LANE_BITS
from tilesmith.codegen.pipeline import PASSES
from tilesmith.runtime.devices.choose import device_name
from tilesmith.schedules.auto import RULES
from tilesmith.targets import emission as means
from tilesmith.targets.emission import IntrinsicCall
from tilesmith.targets.isa import BACKENDS
from tilesmith.targets.nearness import distance
from tilesmith.targets.target import check_runs_here, parse_target

GPUS = [name for name, backend in BACKENDS.items() if backend.emission is not None]
# Who describes a backend, drives its devices, tells what this machine is, calls a tool of one vendor, or has one row a backend.
MAY_NAME = (
    "targets/isa.py", "targets/host.py", "targets/machine.py", *(f"targets/{name}/" for name in GPUS), "runtime/devices/cuda/",
    "runtime/devices/cpu/", "codegen/backends/sass.py", "targets/matrix_instructions.py",
)  # fmt: skip
WORDS = ("llvm.nvvm.", "nvvm.", "llvm.amdgcn.", "amdgcn", "nvptx64", "ptx_kernel", "amdgpu_kernel", "sm_", "gfx")


def named(path: Path) -> list[str]:
    """Where the code of a file (no comment, no docstring) has the name of a backend, or words that only one has."""
    tree = ast.parse(path.read_text())
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    said = {id(node.body[0].value) for node in bodies if node.body and isinstance(node.body[0], ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            text = node.value
            if any(text == name or text.startswith(f"{name}:") for name in BACKENDS) or text.startswith(WORDS):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {text[:60]!r}")
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            parts = node.module.split(".")
            if {*parts} & {*BACKENDS} and ("targets" in parts or "devices" in parts):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {node.module}")
    return found


def test_nothing_asks_for_a_backend_by_its_name() -> None:
    paths = [path for path in modules().values() if not str(path.relative_to(ROOT)).startswith((*MAY_NAME, "tests/"))]
    assert len(paths) > 300
    assert [place for path in paths for place in named(path)] == []


def test_a_question_by_name_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "asks.py"
    file.write_text(
        '"""cuda"""\nfrom ..targets.cuda.levels import LEVELS\nif kind == "cuda" or text.startswith("cuda:"): pass\n'
    )
    assert len(named(file)) == 3


@pytest.mark.parametrize("name", BACKENDS)
def test_a_description_is_frozen_and_whole(name: str) -> None:
    backend = BACKENDS[name]
    with pytest.raises(FrozenInstanceError):
        backend.passes = ""  # type: ignore[misc]
    assert backend.passes in PASSES and backend.rules in RULES
    assert all((level.gpu is None) == (backend.emission is None) for level in backend.levels)
    assert (backend.devices is None) == (backend.emission is None)


@pytest.mark.parametrize("name", [name for name in BACKENDS if name not in GPUS])
def test_a_library_can_ask_for_every_feature(name: str) -> None:
    backend = BACKENDS[name]
    assert backend.in_c is not None
    known = {*backend.extensions}.union(*(level.features for level in backend.levels))
    assert known <= {*backend.in_c.asks}


@pytest.mark.parametrize("name", GPUS)
def test_what_kernels_are_written_with_has_a_meaning(name: str) -> None:
    emission = BACKENDS[name].emission
    assert emission is not None and {*emission.scopes} == {"global", "shared", "private", "table"}
    meanings = {f"llvm.{known}": meaning for known, meaning in emission.meanings.items()}
    assert meanings[emission.thread_index] == f"{means.THREAD}x" and meanings[emission.block_index] == f"{means.BLOCK}x"
    calls = [step.name for step in emission.barrier if isinstance(step, IntrinsicCall)]
    assert [meanings[call] for call in calls] == [means.BARRIER]
    assert {meanings[call.name] for call in emission.shuffle.calls.values()} <= {means.SHUFFLE_XOR, means.PERMUTE}
    assert "i32" in emission.shuffle.calls, "anything can be moved as 32 bits"
    if emission.copies is not None:
        sizes = [meanings[copy] for copy in emission.copies.by_size.values()]
        assert sizes == [f"{means.COPY}{size}" for size in emission.copies.by_size]
        assert all(meanings[copy].endswith(means.PARTLY) for copy in emission.copies.partly_by_size.values())


@pytest.mark.parametrize("name", GPUS)
def test_llvm_has_the_layout_and_the_widths_that_are_said(name: str) -> None:
    from llvmlite import binding

    binding.initialize_all_targets()
    backend = BACKENDS[name]
    assert backend.emission is not None
    for level in backend.levels:
        machine = binding.Target.from_triple(backend.triple).create_target_machine(cpu=level.llvm_cpu)
        assert backend.emission.layout in ("", str(machine.target_data))
        assert level.gpu is not None and level.vector_bits == 32 * level.gpu.warp and level.gpu.warp // 2 in LANE_BITS


@pytest.mark.parametrize("name", GPUS)
def test_one_level_is_played_and_is_near_itself_alone(name: str) -> None:
    emulated = [level for level in BACKENDS[name].levels if level.emulated]
    assert [level.name for level in emulated] == ["emulator"]
    target = parse_target(f"{name}:emulator")
    check_runs_here(target)
    assert not target.needs_device and device_name(target) == f"{name}:emulator"
    others = [parse_target(f"{name}:{level.name}") for level in BACKENDS[name].levels if not level.emulated]
    assert distance(target, target) == 0.0 and {distance(target, other) for other in others} == {None}
