"""Target: a kind of processor as features and sizes, not as a marketing name. And its text form.

    target   = "host" | kind | kind ":" level { "+" extension } { ";" name "=" value }
    kind     = the name of a backend (isa.py): "x86" | "aarch64" | "riscv64" | "cuda" | "amdgpu"
    name     = "vector" (bits) | "fma" | "load" | "store" (vectors per cycle) | "cores" | "l1" | "l2" | "l3" | "triple"
    cache    = size [ "/" line [ "/" cores that share it ] ]           sizes in bytes, with K or M

    x86:avx512+avx512vnni;vector=512;fma=2;load=2;store=1;cores=2;l1=32K/64/1;l2=1M/64/1;l3=32M/64/2;triple=...

What a person leaves out is filled from the level (isa.py); what is printed and stored is always whole, and parses back to
an equal target. `host` (this machine) and a kind alone (its first GPU, as in `cuda`) are resolved when they are parsed, so they
are never stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from ..common.cached import cached_property
from ..common.errors import TargetError
from ..common.near import did_you_mean
from .backend import Backend, Cache, Level, Multiprocessor
from .emission import Emission
from .isa import BACKENDS
from .matrix_instructions import MatrixInstruction, instructions_of, unit_of

__all__ = ["Cache", "Target", "check_runs_here", "named_targets", "names_gpu", "parse_target"]


class Element(Protocol):
    """Holds what a target needs to know of an element type."""

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory."""
        ...


@dataclass(frozen=True)
class Target:
    """A processor that kernels are made for; `key` and `text` depend on nothing else.

    Ports count whole vectors of `vector_bits` per cycle and core. On a GPU a core is a multiprocessor, a vector is a warp,
    `vector_registers` are those of a thread, the first cache is the shared memory of a block, the second the L2.
    """

    kind: str
    level: str
    extensions: tuple[str, ...]
    vector_bits: int
    fma_ports: int
    load_ports: int
    store_ports: int
    cores: int
    caches: tuple[Cache, ...]
    triple: str

    @property
    def backend(self) -> Backend:
        """The description of its kind."""
        return BACKENDS[self.kind]

    @property
    def isa(self) -> Level:
        """The level's own data."""
        level = self.backend.level(self.level)
        assert level is not None
        return level

    @cached_property
    def features(self) -> tuple[str, ...]:
        """All LLVM features of the level and the extensions, sorted: "avx512f", "avx512vnni", "fma", ..."""
        return tuple(sorted(self.isa.features.union(self.extensions)))

    @property
    def cpu(self) -> str:
        """The processor name for LLVM: that of the level, never that of a machine."""
        return self.isa.llvm_cpu

    @cached_property
    def llvm_features(self) -> str:
        """The feature string for LLVM's target machine, beside `cpu`."""
        return ",".join([*(f"+{name}" for name in self.features if name != self.isa.length), *self.isa.tuning])

    @property
    def vector_registers(self) -> int:
        """Says how many vector registers a function can name."""
        return self.isa.vector_registers

    @property
    def has_masks(self) -> bool:
        """Says whether loads and stores under a mask cost no more than plain ones."""
        return self.isa.has_masks

    @cached_property
    def matrix_instructions(self) -> tuple[MatrixInstruction, ...]:
        """Returns what its cores can multiply at once (matrix_instructions.py)."""
        return instructions_of(frozenset(self.features), self.vector_bits)

    @property
    def matrix_unit(self) -> MatrixInstruction | None:
        """The instruction that multiplies tiles in a unit of its own, if its cores have one."""
        return unit_of(self.matrix_instructions)

    @property
    def has_matrix_unit(self) -> bool:
        """Says whether its cores multiply tiles, with vectors as wide as a row of a tile."""
        return self.matrix_unit is not None

    @property
    def is_gpu(self) -> bool:
        """Says whether its kernels are launched on blocks of threads."""
        return self.isa.gpu is not None

    @property
    def gpu(self) -> Multiprocessor:
        """Returns what one of its multiprocessors holds. Only of a GPU."""
        found = self.isa.gpu
        assert found is not None
        return found

    @property
    def emission(self) -> Emission:
        """Says how its kernels are written. Only of a GPU."""
        found = self.backend.emission
        assert found is not None
        return found

    @property
    def is_emulator(self) -> bool:
        """Says whether a processor plays this GPU."""
        return self.isa.emulated

    @property
    def needs_device(self) -> bool:
        """Says whether its kernels run on a device: those of processors and of the emulator do not."""
        return self.is_gpu and not self.is_emulator

    def has(self, capability: str) -> bool:
        """Says whether it can do one of the `capabilities` of backend.py."""
        giving = self.backend.capabilities.get(capability)
        return giving is None or not giving.isdisjoint(self.features)

    def lanes(self, dtype: Element) -> int:
        """Elements of `dtype` in one vector."""
        return self.vector_bits // (8 * dtype.bytes)

    @cached_property
    def text(self) -> str:
        """The canonical text: everything that code generation and analysis depend on."""
        numbers = {name: str(getattr(self, attribute)) for name, attribute in _NUMBERS.items()}
        caches = {f"l{i}": f"{_size_text(c.bytes)}/{c.line}/{c.shared_by}" for i, c in enumerate(self.caches, 1)}
        head = "+".join([f"{self.kind}:{self.level}", *self.extensions])
        values = {**numbers, **caches, "triple": self.triple}
        return ";".join([head, *(f"{name}={value}" for name, value in values.items())])

    @cached_property
    def key(self) -> str:
        """sha256 of the text, 64 hexadecimal digits."""
        return sha256(self.text.encode()).hexdigest()

    def __str__(self) -> str:
        return self.text


_NUMBERS = {
    "vector": "vector_bits",
    "fma": "fma_ports",
    "load": "load_ports",
    "store": "store_ports",
    "cores": "cores",
}
_CACHES = ("l1", "l2", "l3")
_MOST = 1 << 20  # cores, ports, bytes of a line: more than any processor has
_TEXT = 2000  # characters
MOST_THREADS = 1 << 16  # of a kernel


def named_targets() -> tuple[str, ...]:
    """The short names: "host" and one for each level of each kind."""
    return ("host", *(f"{kind.name}:{level.name}" for kind in BACKENDS.values() for level in kind.levels))


def names_gpu(text: str) -> bool:
    """Says whether the text of a target begins with the name of a backend that launches kernels; the rest is not looked at."""
    backend = BACKENDS.get(text.partition(":")[0].strip())
    return backend is not None and backend.emission is not None


def parse_target(text: str) -> Target:
    """The target that `text` names; the grammar stands at the top of this file. Errors: TargetError."""
    if text.strip() == "host":
        from .host import host_target

        return host_target()
    alone = BACKENDS.get(text.strip())
    if alone is not None and alone.devices is not None and alone.devices.local is not None:
        return parse_target(alone.devices.local())
    if len(text) > _TEXT:
        raise TargetError(
            "the text of a target is too long", expected=f"at most {_TEXT} characters", found=f"{len(text)}"
        )
    head, *settings = (part.strip() for part in text.strip().split(";"))
    kind, level, extensions = _parse_head(head)
    values = _parse_settings(settings)
    numbers = {
        attribute: _integer(name, values[name], 1) if name in values else getattr(level, attribute)
        for name, attribute in _NUMBERS.items()
    }
    _check_vector(level, numbers["vector_bits"])
    caches = _parse_caches(level, values, numbers["cores"])
    return Target(kind.name, level.name, extensions, caches=caches, triple=values.get("triple", kind.triple), **numbers)


def target_of(given: str | Target) -> Target:
    """The target that a person means, by its text or as it is. Errors: TargetError."""
    if isinstance(given, Target):
        return given
    if isinstance(given, str):
        return parse_target(given)
    raise TargetError(
        "that is no target", expected='"host", a text such as "x86:avx2", or a tilesmith.Target', found=repr(given)[:80]
    )


def check_runs_here(target: Target) -> None:
    """Returns if this machine can run code made for `target`. Errors: TargetError that names what it lacks."""
    from .host import missing_here

    missing = missing_here(target)
    if missing:
        raise TargetError(
            f"this machine cannot run code for {target.kind}:{target.level}",
            expected=", ".join(missing),
            found=_host_in_words(),
            advice="use the target 'host', or run this on a machine that has it",
        )


def _host_in_words() -> str:
    try:
        host = parse_target("host")
    except TargetError as error:
        return error.problem
    return "+".join([f"{host.kind}:{host.level}", *host.extensions])


def _parse_head(head: str) -> tuple[Backend, Level, tuple[str, ...]]:
    kind_name, colon, rest = head.partition(":")
    kind = BACKENDS.get(kind_name)
    level_name, *wanted = rest.split("+")
    level = kind.level(level_name) if kind else None
    if kind is None or level is None or not colon:
        raise TargetError(
            f"unknown target {head!r}",
            expected="one of " + ", ".join(named_targets()),
            advice=did_you_mean(head, named_targets()) or "`host` is this machine",
        )
    names: set[str] = set()
    for name in wanted:
        names.update(kind.bundles.get(name, (name,)))
    for name in sorted(names):
        if not kind.allows(name, level):
            usable = [*kind.bundles, *(known for known in kind.extensions if kind.allows(known, level))]
            raise TargetError(
                f"{kind.name}:{level.name} has no extension {name!r}",
                expected="one of " + ", ".join(usable) if usable else "no extension",
                advice=did_you_mean(name, usable),
            )
    return kind, level, tuple(sorted(names))


def _parse_settings(settings: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    known = (*_NUMBERS, *_CACHES, "triple")
    for setting in settings:
        name, equals, value = setting.partition("=")
        right = name != "triple" or re.fullmatch(r"[\w.-]{1,100}", value, re.ASCII)
        if not equals or name not in known or name in values or not value or not right:
            raise TargetError(
                f"{setting!r} is no setting of a target",
                expected="name=value, each name once, of " + ", ".join(known),
            )
        values[name] = value
    return values


def _integer(name: str, value: str, least: int) -> int:
    if re.fullmatch(r"[0-9]{1,9}", value) is None or not least <= int(value) <= _MOST:
        raise TargetError(f"{name}={_short(value)} in a target", expected=f"an integer from {least} to {_MOST}")
    return int(value)


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."


def _check_vector(level: Level, bits: int) -> None:
    if bits > level.vector_bits or bits < 64 or bits & (bits - 1):
        raise TargetError(
            f"vector={bits} in a target of level {level.name}",
            expected=f"a power of two from 64 to {level.vector_bits}",
        )


def _parse_caches(level: Level, values: dict[str, str], cores: int) -> tuple[Cache, ...]:
    """Caches as given, else as the level has them. A level of cache shared by all cores follows their number."""
    caches: list[Cache] = []
    for index, name in enumerate(_CACHES):
        usual = level.caches[index] if index < len(level.caches) else None
        if usual is not None and usual.shared_by == level.cores:
            usual = Cache(usual.bytes, usual.line, cores)
        if name in values:
            if len(caches) < index:
                raise TargetError(f"{name} without l{index} in a target")
            usual = _parse_cache(name, values[name], usual or Cache(0, 64, cores))
        if usual is not None:
            caches.append(usual)
    return tuple(caches)


def _parse_cache(name: str, text: str, usual: Cache) -> Cache:
    parts = text.split("/")
    match = re.fullmatch(r"([1-9][0-9]{0,11})([KM]?)", parts[0], re.ASCII)
    if match is None or len(parts) > 3:
        raise TargetError(f"{name}={_short(text)} in a target", expected="size/line/cores, as in 32K/64/1 or 32K")
    size = int(match[1]) * {"": 1, "K": 1024, "M": 1024 * 1024}[match[2]]
    line = _integer(name, parts[1], 1) if len(parts) > 1 else usual.line
    shared_by = _integer(name, parts[2], 1) if len(parts) > 2 else usual.shared_by
    return Cache(size, line, shared_by)


def _size_text(size: int) -> str:
    for unit, letter in ((1024 * 1024, "M"), (1024, "K")):
        if size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)
