"""How kernels for NVIDIA's GPUs are written: PTX ISA, and LLVM's user guide for NVPTX."""

from __future__ import annotations

from .. import emission
from ..emission import Copies, Emission, IntrinsicCall, LaneExchange, MemoryScope, by_axis, table

_SREG = "nvvm.read.ptx.sreg."
_EVERY_LANE = "i32 -1"
_SIZES = (4, 8, 16)  # bytes of an asynchronous copy


def _shuffle(kind: str, type_: str) -> IntrinsicCall:
    """shfl.sync of all lanes: to the lane whose number differs by a mask, in segments of the whole warp."""
    arguments = (_EVERY_LANE, f"{type_} {{value}}", "i32 {mask}", "i32 31")
    return IntrinsicCall(f"llvm.nvvm.shfl.sync.bfly.{kind}", type_, arguments)


def _copy(size: int) -> str:
    """cp.async; past the L1 where it is as wide as it can be."""
    return f"nvvm.cp.async.{'cg' if size == _SIZES[-1] else 'ca'}.shared.global.{size}"


_SHUFFLES = {
    "up": emission.SHUFFLE_UP,
    "down": emission.SHUFFLE_DOWN,
    "bfly": emission.SHUFFLE_XOR,
    "idx": emission.SHUFFLE_INDEX,
}
_MEANINGS = table(
    by_axis(f"{_SREG}tid.", emission.THREAD),
    by_axis(f"{_SREG}ctaid.", emission.BLOCK),
    by_axis(f"{_SREG}ntid.", emission.THREADS),
    by_axis(f"{_SREG}nctaid.", emission.BLOCKS),
    {
        f"{_SREG}laneid": emission.LANE,
        f"{_SREG}warpid": emission.WARP_NUMBER,
        f"{_SREG}warpsize": emission.WARP_LANES,
        "nvvm.barrier0": emission.BARRIER,
        "nvvm.barrier.cta.sync.aligned.all": emission.BARRIER,
        "nvvm.barrier.sync": emission.BARRIER,
        "nvvm.bar.warp.sync": emission.WARP_BARRIER,
        "nvvm.cp.async.commit.group": emission.COMMIT,
        "nvvm.cp.async.wait.group": emission.WAIT,
        "nvvm.cp.async.wait.all": emission.WAIT_ALL,
    },
    {f"nvvm.shfl.sync.{word}.{kind}": meaning for word, meaning in _SHUFFLES.items() for kind in ("i32", "f32")},
    {f"nvvm.cp.async.{way}.shared.global.{size}": f"{emission.COPY}{size}" for way in ("ca", "cg") for size in _SIZES},
    {
        f"nvvm.cp.async.{way}.shared.global.{size}.s": f"{emission.COPY}{size}{emission.PARTLY}"
        for way in ("ca", "cg")
        for size in _SIZES
    },
    {
        f"nvvm.{name}": f"{emission.FUNCTION}{meaning}"
        for name, meaning in {
            "ex2.approx.f": "exp2",
            "ex2.approx.ftz.f": "exp2",
            "lg2.approx.f": "log2",
            "lg2.approx.ftz.f": "log2",
            "rcp.approx.ftz.f": "reciprocal",
            "rsqrt.approx.f": "rsqrt",
            "rsqrt.approx.ftz.f": "rsqrt",
            "tanh.approx.f": "tanh",
        }.items()
    },
)

EMISSION = Emission(
    intrinsics="llvm.nvvm.",
    format="ptx",
    text="ptx",
    more=("sass",),
    convention="ptx_kernel",
    # one block a multiprocessor is promised, or ptxas would keep to half of the registers and spill
    attributes='nounwind "nvvm.maxntid"="{threads}" "nvvm.minctasm"="1"',
    scopes={
        "global": MemoryScope(1),
        "shared": MemoryScope(3),
        "private": MemoryScope(0, 1 << 17),  # local memory: all threads of a device have theirs at a time
        "table": MemoryScope(0),
    },
    block_index=f"llvm.{_SREG}ctaid.x",
    thread_index=f"llvm.{_SREG}tid.x",
    barrier=(IntrinsicCall("llvm.nvvm.barrier0"),),
    shuffle=LaneExchange({"i32": _shuffle("i32", "i32"), "float": _shuffle("f32", "float")}),
    copies=Copies(
        by_size={size: f"llvm.{_copy(size)}" for size in _SIZES},
        partly_by_size={size: f"llvm.{_copy(size)}.s" for size in _SIZES},
        commit=IntrinsicCall("llvm.nvvm.cp.async.commit.group"),
        wait=IntrinsicCall("llvm.nvvm.cp.async.wait.group", arguments=("i32 {groups}",)),
    ),
    meanings=_MEANINGS,
    unknown="\n.version 3.",  # what LLVM falls back to; every architecture of ours needs 6.0
)
