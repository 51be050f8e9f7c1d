"""Targets: their text is whole and parses back, and a host is described by flags and tables alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesmith.common.errors import TargetError
from tilesmith.targets import host
from tilesmith.targets.backend import Gpu
from tilesmith.targets.cuda.devices import runs
from tilesmith.targets.isa import AARCH64, BACKENDS, RISCV64, X86
from tilesmith.targets.target import Cache, Target, check_runs_here, named_targets, parse_target
from tilesmith.tensor.dtype import bf16, boolean, f32, f64, i8


@st.composite
def targets(draw: st.DrawFn) -> Target:
    kind = draw(st.sampled_from(list(BACKENDS.values())))
    level = draw(st.sampled_from(kind.levels))
    usable = [name for name in kind.extensions if kind.allows(name, level)]
    extensions = draw(st.lists(st.sampled_from(usable), unique=True)) if usable else []
    number = st.integers(1, 300)
    cache = st.builds(Cache, st.integers(1, 2**36), st.sampled_from([32, 64, 128]), number)
    vector = draw(st.sampled_from([bits for bits in (64, 128, 256, 512, 1024) if bits <= level.vector_bits]))
    ports = [draw(number) for _ in range(4)]
    caches = tuple(draw(st.lists(cache, min_size=len(level.caches), max_size=3)))
    return Target(kind.name, level.name, tuple(sorted(extensions)), vector, *ports, caches, kind.triple)


@given(targets())
def test_the_text_parses_back_to_an_equal_target(target: Target) -> None:
    again = parse_target(target.text)
    assert again == target and again.text == target.text and again.key == target.key


@given(targets(), targets())
def test_keys_are_equal_exactly_when_targets_are(one: Target, other: Target) -> None:
    assert (one.key == other.key) == (one == other)


@pytest.mark.parametrize("name", [name for name in named_targets() if name != "host"])
def test_short_names_are_filled_from_the_level(name: str) -> None:
    target = parse_target(name)
    assert target.text.startswith(name + ";") and parse_target(target.text) == target
    assert set(target.isa.features) <= set(target.features)
    assert all(a.bytes < b.bytes for a, b in zip(target.caches, target.caches[1:], strict=False))


def test_what_a_person_says_wins_over_the_level() -> None:
    target = parse_target("x86:avx512+amx; vector=256; cores=4; l1=48K; l2=2M/128; l3=1000/64/3")
    assert target.extensions == ("amx-bf16", "amx-int8", "amx-tile")
    assert (target.vector_bits, target.cores, target.vector_registers) == (256, 4, 32)
    assert target.caches == (Cache(48 * 1024, 64, 1), Cache(2 * 1024 * 1024, 128, 1), Cache(1000, 64, 3))
    assert parse_target("x86:avx512;cores=4").caches[2].shared_by == 4


def test_lanes_count_elements_as_they_lie_in_memory() -> None:
    target = parse_target("x86:avx512")
    assert [target.lanes(dtype) for dtype in (f64, f32, bf16, i8, boolean)] == [8, 16, 32, 64, 64]


def test_llvm_is_told_the_level_and_never_a_machine() -> None:
    target = parse_target("x86:avx512+avx512vnni")
    assert target.cpu == "x86-64-v4"
    assert "+avx512vnni" in target.llvm_features.split(",") and "-prefer-256-bit" in target.llvm_features.split(",")
    assert parse_target("x86:avx2").llvm_features.count("-") == 0


@pytest.mark.parametrize("name", [name for name in named_targets() if name != "host"])
def test_llvm_knows_every_processor_and_feature(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    kind = BACKENDS[name.partition(":")[0]]
    target = parse_target("+".join([name, *(e for e in kind.extensions if kind.allows(e, parse_target(name).isa))]))
    machine = binding.Target.from_triple(target.triple).create_target_machine(target.cpu, target.llvm_features)
    machine.emit_assembly(binding.parse_assembly("define void @empty() { ret void }"))
    assert "not a recognized" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unknown target"),
        ("x86", "unknown target"),
        ("x86:avx9", "unknown target"),
        ("mips:r4000", "unknown target"),
        ("host;cores=2", "unknown target"),
        ("x86:avx2+avx512vnni", "no extension 'avx512vnni'"),
        ("cuda:sm_90+amx", "no extension 'amx'"),
        ("x86:avx2;cores", "is no setting"),
        ("x86:avx2;cores=2;cores=2", "is no setting"),
        ("x86:avx2;color=2", "is no setting"),
        ("x86:avx2;cores=0", "cores=0"),
        ("x86:avx2;cores=-1", "cores=-1"),
        ("x86:avx2;cores=two", "cores=two"),
        ("x86:avx2;vector=512", "vector=512"),
        ("x86:avx2;vector=96", "vector=96"),
        ("x86:avx2;l1=big", "l1=big"),
        ("x86:avx2;l1=32K/64/1/1", "l1=32K/64/1/1"),
        ("x86:avx2;l1=0K", "l1=0K"),
    ],
)
def test_wrong_text_is_refused(text: str, problem: str) -> None:
    with pytest.raises(TargetError, match=problem):
        parse_target(text)


def test_the_host_is_resolved_and_runs_here() -> None:
    target = parse_target("host")
    assert "host" not in target.text and parse_target(target.text) == target
    check_runs_here(target)
    assert 1 <= host.usable_cores() <= target.cores


def test_a_machine_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "host_kind", lambda: X86)
    monkeypatch.setattr(host, "host_features", lambda: parse_target("x86:avx512").isa.features)
    check_runs_here(parse_target("x86:avx2"))
    with pytest.raises(TargetError) as caught:
        check_runs_here(parse_target("x86:avx512+amx"))
    assert caught.value.expected == "amx-bf16, amx-int8, amx-tile"
    with pytest.raises(TargetError, match="cannot run code for aarch64:neon"):
        check_runs_here(parse_target("aarch64:neon"))


def test_a_cuda_target_needs_a_device_of_its_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilesmith.targets.cuda.devices.gpus", lambda: (Gpu("H", (9, 0), 132, 1, 1),))
    check_runs_here(parse_target("cuda:sm_80"))
    check_runs_here(parse_target("cuda:sm_90a"))
    with pytest.raises(TargetError, match="cuda:sm_100"):
        check_runs_here(parse_target("cuda:sm_100"))
    assert runs("sm_100a", (10, 0)) and not runs("sm_90a", (10, 0))


def test_the_level_follows_from_features_and_nothing_else() -> None:
    v4 = parse_target("x86:avx512").isa.features
    assert host.describe(X86, v4, ("", 0)).level == "avx512"
    assert host.describe(X86, v4 - {"avx512vl"}, ("", 0)).level == "avx2"  # Knights Landing had such a set
    assert host.describe(X86, frozenset({"sse", "sse2", "avx512vnni"}), ("", 0)).extensions == ()
    assert host.describe(AARCH64, frozenset({"neon", "dotprod", "sve"}), ("", 0)).extensions == ("dotprod",)
    with pytest.raises(TargetError, match="no level of riscv64"):
        host.describe(RISCV64, frozenset({"m", "a", "c"}), ("", 0))


def test_wide_vectors_take_two_passes_on_zen_4() -> None:
    v4 = parse_target("x86:avx512").isa.features
    zen4, zen5, intel = (
        host.describe(X86, v4, identity)
        for identity in (("AuthenticAMD", 25), ("AuthenticAMD", 26), ("GenuineIntel", 6))
    )
    assert (zen4.fma_ports, zen5.fma_ports, intel.fma_ports) == (1, 2, 2)
    assert replace(zen4, fma_ports=2, load_ports=2) == intel


def test_cpuid_and_cpu_lists_are_read_as_the_kernel_writes_them(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "cpuinfo"
    path.write_text(
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel name\t: Anything\n\nprocessor\t: 1\n"
    )
    assert host.cpuid_identity(path) == ("AuthenticAMD", 25)
    assert host.cpuid_identity(path / "missing") == ("", 0)
    assert host.cpu_list("0-3,8,10-11\n") == (0, 1, 2, 3, 8, 10, 11)
    assert host.cpu_list("") == ()
