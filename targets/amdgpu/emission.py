"""How kernels for AMD's GPUs are written: LLVM's user guide for AMDGPU, with its memory model."""

from __future__ import annotations

from .. import emission
from ..emission import Emission, IntrinsicCall, LaneExchange, MemoryScope, by_axis, table

_WITHOUT = (
    "dispatch-ptr", "queue-ptr", "implicitarg-ptr", "dispatch-id", "workgroup-id-y", "workgroup-id-z", "workitem-id-y",
    "workitem-id-z",
)  # fmt: skip
_MEANINGS = table(
    by_axis("amdgcn.workitem.id.", emission.THREAD),
    by_axis("amdgcn.workgroup.id.", emission.BLOCK),
    {
        "amdgcn.s.barrier": emission.BARRIER,
        "amdgcn.ds.bpermute": emission.PERMUTE,
        "amdgcn.exp2.f32": f"{emission.FUNCTION}exp2",
        "amdgcn.log.f32": f"{emission.FUNCTION}log2",
        "amdgcn.rcp.f32": f"{emission.FUNCTION}reciprocal",
        "amdgcn.rsq.f32": f"{emission.FUNCTION}rsqrt",
    },
)

EMISSION = Emission(
    intrinsics="llvm.amdgcn.",
    format="elf",
    text="asm",
    convention="amdgpu_kernel",
    # among how many threads LLVM divides the registers, and which implicit arguments no kernel of ours reads
    attributes='nounwind "amdgpu-flat-work-group-size"="{threads},{threads}" "uniform-work-group-size"="true" '
    + " ".join(f'"amdgpu-no-{name}"' for name in _WITHOUT),
    scopes={
        "global": MemoryScope(1),
        "shared": MemoryScope(3),
        "private": MemoryScope(5, 1 << 17),  # scratch memory: all threads of a device have theirs at a time
        "table": MemoryScope(4),
    },
    block_index="llvm.amdgcn.workgroup.id.x",
    thread_index="llvm.amdgcn.workitem.id.x",
    # the instruction waits for threads alone: what they wrote is seen by the fences
    barrier=(
        'fence syncscope("workgroup") release',
        IntrinsicCall("llvm.amdgcn.s.barrier"),
        'fence syncscope("workgroup") acquire',
    ),
    # bpermute names a lane by 4 times its number, as bytes of a register of all lanes; higher bits of it are ignored
    shuffle=LaneExchange(
        {"i32": IntrinsicCall("llvm.amdgcn.ds.bpermute", "i32", ("i32 {1}", "i32 {value}"))},
        before=("xor i32 {thread}, {mask}", "shl i32 {0}, 2"),
    ),
    meanings=_MEANINGS,
    explicit_spaces=True,
    layout="e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-"
    "p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-"
    "n32:64-S32-A5-G1-ni:7:8:9",
    unknown="-gfx000",  # what LLVM falls back to
)
