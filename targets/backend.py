"""What a backend is: a description, as frozen data, which everything else reads.

    threads    blocks, warps and lanes: how wide they are (Multiprocessor), where kernels are launched over them
    memory     caches and what a multiprocessor holds; address spaces and limits of scopes (emission.py)
    passes     the name of its list in codegen/pipeline.py, and of its rules in schedules/auto.py
    matrices   rows of matrix_instructions.py, by the features that a level has
    emission   the intrinsics, conventions and address spaces of its kernels (emission.py)
    C          how a library asks for its features (in_c.py)
    devices    how its devices are found, and which driver runs its kernels (devices.py of its folder)

Nobody asks which backend a target has by its name: what differs between them is a field here. CONTRIBUTING.md says how to add
one. A level is a bundle of features that processors have as a whole (x86-64-v3, Neon, ...), so that machines which differ in
features that no kernel uses are one target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .emission import Emission, MemoryScope
from .in_c import InC

# What not all processors can do: `Backend.capabilities` says which features give it.
FUSED = "multiply and add in one rounding"
ROUNDING = "round to whole numbers"
HALF_CONVERSIONS = "convert to and from half precision"
HALF_ARITHMETIC = "compute in half precision"
MERGED_EXTREMA = "write an extremum under a mask, and give the second operand where one is NaN"


@dataclass(frozen=True, slots=True)
class Cache:
    """One level of cache: size in bytes, line in bytes, and how many cores share one."""

    bytes: int
    line: int
    shared_by: int


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """Says what one multiprocessor of a GPU holds at a time, and what one block may have (CUDA C++ programming guide, table of
    compute capabilities). Memory in bytes; registers of 32 bits.

    warp: threads that run together. reserved: shared memory that each block costs beside its own. register_grain: in so many
        registers are handed out to a warp. schedulers: parts of a multiprocessor with warps and registers of their own.
    copies_alone: whether it copies to shared memory while its threads go on.
    products: operations that its matrix units do in a cycle on floats of 16 bits, a multiply-add counting two; never fewer
        than the maker's figures for dense products.
    clock, l2_speed, memory_speed: usual ones: Hz; bytes per cycle of a multiprocessor; bytes per second.
    """

    shared: int
    registers: int
    threads: int
    blocks: int
    block_threads: int = 1024
    thread_registers: int = 255
    warp: int = 32
    reserved: int = 1024
    register_grain: int = 256
    schedulers: int = 4
    copies_alone: bool = True
    products: int = 2048
    clock: float = 1.7e9
    l2_speed: float = 32
    memory_speed: float = 2.5e12


@dataclass(frozen=True, slots=True)
class Level:
    """A named bundle of features, and the sizes of a usual processor that has it.

    `features` are LLVM names, those of lower levels included. Ports count whole vectors of `vector_bits` per cycle and core.
    family: of a GPU, what has to agree where a schedule that was found for one level serves another.
    emulated: its kernels run on a processor, which plays a GPU.
    length: one of the features, that registers are at least as long as `vector_bits`, where LLVM has no feature for that.
    attributes: of functions, which tell LLVM so.
    """

    name: str
    llvm_cpu: str
    features: frozenset[str]
    vector_bits: int
    vector_registers: int
    fma_ports: int
    load_ports: int
    store_ports: int
    cores: int
    caches: tuple[Cache, ...]
    has_masks: bool = False
    tuning: tuple[str, ...] = ()  # LLVM tuning flags, with their sign; not features of a machine
    gpu: Multiprocessor | None = None
    family: str = ""
    emulated: bool = False
    length: str = ""
    attributes: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device that is here; `name` is for people and tells kinds of machine apart, nothing else reads it. Sizes in bytes."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    l2: int
    memory: int


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a backend, as its driver tells them.

    words: one of them, for errors. driver: the folder of runtime/devices that runs kernels there; "" where there is none.
    variable: of the environment, by which a process is shown some of them. found: those that this process may use.
    runs: whether a device runs code for a level. own: the text of the target that a device is itself, "" if it is none.
    local: the same of the first device. Errors: TargetError.
    """

    words: str
    driver: str = ""
    variable: str = ""
    found: Callable[[], tuple[Gpu, ...]] = tuple
    runs: Callable[[str, Gpu], bool] = lambda level, gpu: False
    own: Callable[[Gpu], str] = lambda gpu: ""
    local: Callable[[], str] | None = None

    def missing(self, level: str) -> str:
        """Says what is missing where no device runs code for a level, in words."""
        driver = "with its driver" if self.driver else "and a driver for it, which is not written yet"
        return f"{self.words} that runs {level}, {driver}"


@dataclass(frozen=True, slots=True)
class Backend:
    """A family of processors: its levels from lowest to highest, what extensions each level may carry, and how code is made.

    capabilities: which features give it what not all processors can do; what is not named here, all levels can.
    store_fence: the intrinsic after which streaming stores are seen by other threads, where they need one.
    vector_constraint: how inline assembly asks for a register that holds vectors of any width; empty where none is asked for.
    emission: of kernels that are launched on blocks of threads; None for processors, which call theirs.
    in_c: how a C library asks for its features; None where kernels become no libraries.
    """

    name: str
    triple: str
    levels: tuple[Level, ...]
    extensions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # -> lowest level
    bundles: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    capabilities: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    store_fence: str = ""
    vector_constraint: str = ""
    passes: str = "processor"
    rules: str = "processor"
    emission: Emission | None = None
    devices: Devices | None = None
    in_c: InC | None = None

    def level(self, name: str) -> Level | None:
        """The level of this name, if there is one."""
        return next((level for level in self.levels if level.name == name), None)

    def allows(self, extension: str, level: Level) -> bool:
        """Says whether `level` may carry `extension`."""
        lowest = self.level(self.extensions.get(extension, ""))
        return lowest is not None and self.levels.index(level) >= self.levels.index(lowest)

    def scope(self, name: str) -> MemoryScope:
        """Memory of a kind; of processors, whose memory is one, it is all the same."""
        return self.emission.scopes[name] if self.emission is not None else MemoryScope(0)
