"""Kernels for the emulator, written by hand in the dialect that the code generator emits."""

from __future__ import annotations

HEAD = """\
target triple = "nvptx64-nvidia-cuda"
@shared = external addrspace(3) global [0 x i8], align 128
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.barrier0()
declare void @llvm.nvvm.bar.warp.sync(i32)
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare float @llvm.nvvm.shfl.sync.down.f32(i32, float, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
declare float @llvm.nvvm.ex2.approx.f(float)
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.ca.shared.global.4.s(ptr addrspace(3), ptr addrspace(1), i32)
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, <4 x i1>, <4 x float>)
declare void @llvm.masked.store.v4f32.p0(<4 x float>, ptr, <4 x i1>)
"""

BARRIER = "  call void @llvm.nvvm.barrier0()\n"


def reverse(barrier: bool = True, count: int = 64) -> str:
    """out[i] = in[count - 1 - i] through shared memory, one block of `count` threads."""
    return (
        HEAD
        + f"""
define ptx_kernel void @reverse(ptr noalias readonly %0, ptr noalias %1) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t64 = zext i32 %t to i64
  %p = getelementptr float, ptr %0, i64 %t64
  %v = load float, ptr %p, align 4
  %s = getelementptr float, ptr addrspace(3) @shared, i64 %t64
  store float %v, ptr addrspace(3) %s, align 4
{BARRIER if barrier else ""}  %r = sub i64 {count - 1}, %t64
  %q = getelementptr float, ptr addrspace(3) @shared, i64 %r
  %w = load float, ptr addrspace(3) %q, align 4
  %o = getelementptr float, ptr %1, i64 %t64
  store float %w, ptr %o, align 4
  ret void
}}
"""
    )


def matmul(drop: int = -1, size: int = 32, past: int = 0) -> str:
    """C = A @ B, all `size` squared, tiles of 16 x 16, one thread an element; `drop` leaves out one of the two barriers,
    `past` moves the reads of A that many elements too far."""
    barriers = [BARRIER, BARRIER]
    if drop >= 0:
        barriers[drop] = ""
    return (
        HEAD
        + f"""
define ptx_kernel void @matmul(ptr noalias readonly %A, ptr noalias readonly %B, ptr noalias %C) {{
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %t64 = zext i32 %t to i64
  %b64 = zext i32 %b to i64
  %ty = lshr i64 %t64, 4
  %tx = and i64 %t64, 15
  %by = udiv i64 %b64, {size // 16}
  %bx = urem i64 %b64, {size // 16}
  %row0 = mul i64 %by, 16
  %row = add i64 %row0, %ty
  %col0 = mul i64 %bx, 16
  %col = add i64 %col0, %tx
  %As = getelementptr float, ptr addrspace(3) @shared, i64 %t64
  %Bs = getelementptr float, ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @shared, i64 1024), i64 %t64
  br label %loop
loop:
  %k0 = phi i64 [ 0, %entry ], [ %k0.next, %stored ]
  %acc = phi float [ 0.0, %entry ], [ %acc.next, %stored ]
  %ka = add i64 %k0, %tx
  %ra = mul i64 %row, {size}
  %ia0 = add i64 %ra, %ka
  %ia = add i64 %ia0, {past}
  %pa = getelementptr float, ptr %A, i64 %ia
  %va = load float, ptr %pa, align 4
  store float %va, ptr addrspace(3) %As, align 4
  %kb = add i64 %k0, %ty
  %rb = mul i64 %kb, {size}
  %ib = add i64 %rb, %col
  %pb = getelementptr float, ptr %B, i64 %ib
  %vb = load float, ptr %pb, align 4
  store float %vb, ptr addrspace(3) %Bs, align 4
{barriers[0]}  br label %inner
inner:
  %k = phi i64 [ 0, %loop ], [ %k.next, %inner ]
  %sum = phi float [ %acc, %loop ], [ %sum.next, %inner ]
  %sa0 = mul i64 %ty, 16
  %sa1 = add i64 %sa0, %k
  %qa = getelementptr float, ptr addrspace(3) @shared, i64 %sa1
  %xa = load float, ptr addrspace(3) %qa, align 4
  %sb0 = mul i64 %k, 16
  %sb1 = add i64 %sb0, %tx
  %qb0 = getelementptr float, ptr addrspace(3) @shared, i64 %sb1
  %qb = getelementptr i8, ptr addrspace(3) %qb0, i64 1024
  %xb = load float, ptr addrspace(3) %qb, align 4
  %prod = fmul float %xa, %xb
  %sum.next = fadd float %sum, %prod
  %k.next = add i64 %k, 1
  %in = icmp ult i64 %k.next, 16
  br i1 %in, label %inner, label %stored
stored:
{barriers[1]}  %acc.next = fadd float %sum.next, 0.0
  %k0.next = add i64 %k0, 16
  %more = icmp ult i64 %k0.next, {size}
  br i1 %more, label %loop, label %done
done:
  %rc = mul i64 %row, {size}
  %ic = add i64 %rc, %col
  %pc = getelementptr float, ptr %C, i64 %ic
  store float %acc.next, ptr %pc, align 4
  ret void
}}
"""
    )


def warp_sum(mask: str = "-1") -> str:
    """out[lane] = sum of in[0..31], by butterflies, in one warp."""
    steps, value = "", "%v"
    for step in (16, 8, 4, 2, 1):
        steps += (
            f"  %s{step} = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 {mask}, float {value}, i32 {step}, i32 31)\n"
        )
        steps += f"  %a{step} = fadd float {value}, %s{step}\n"
        value = f"%a{step}"
    return (
        HEAD
        + f"""
define ptx_kernel void @warp_sum(ptr noalias readonly %in, ptr noalias %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t64 = zext i32 %t to i64
  %p = getelementptr float, ptr %in, i64 %t64
  %v = load float, ptr %p, align 4
{steps}  %o = getelementptr float, ptr %out, i64 %t64
  store float {value}, ptr %o, align 4
  ret void
}}
"""
    )


def pipelined(wait: bool = True, bytes: int = 16, barrier: bool = True) -> str:
    """out[i] = in[i ^ 4] by an asynchronous copy: each of 32 threads copies four floats and reads those of another."""
    copy = "call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %s, ptr addrspace(1) %g)"
    if bytes != 16:
        copy = "call void @llvm.nvvm.cp.async.ca.shared.global.4.s(ptr addrspace(3) %s, ptr addrspace(1) %g, i32 4)"
    return (
        HEAD
        + f"""
define ptx_kernel void @pipelined(ptr noalias readonly %in, ptr noalias %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t64 = zext i32 %t to i64
  %n = mul i64 %t64, 4
  %p = getelementptr float, ptr %in, i64 %n
  %g = addrspacecast ptr %p to ptr addrspace(1)
  %s = getelementptr float, ptr addrspace(3) @shared, i64 %n
  {copy}
  call void @llvm.nvvm.cp.async.commit.group()
  {"call void @llvm.nvvm.cp.async.wait.group(i32 0)" if wait else ""}
{BARRIER if barrier else ""}
  %m = xor i64 %n, 4
  %q = getelementptr float, ptr addrspace(3) @shared, i64 %m
  %v = load <4 x float>, ptr addrspace(3) %q, align 16
  %o = getelementptr float, ptr %out, i64 %n
  store <4 x float> %v, ptr %o, align 16
  ret void
}}
"""
    )


def shuffle(kind: str, step: int, clamp: int) -> str:
    """out[i] = shuffled in[i], integers."""
    name = f"@llvm.nvvm.shfl.sync.{kind}.i32"
    head = HEAD if kind == "idx" else HEAD + f"declare i32 {name}(i32, i32, i32, i32)\n"
    return (
        head
        + f"""
define ptx_kernel void @shuffle(ptr %in, ptr %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr i32, ptr %in, i32 %t
  %v = load i32, ptr %p, align 4
  %s = call i32 {name}(i32 -1, i32 %v, i32 {step}, i32 {clamp})
  %o = getelementptr i32, ptr %out, i32 %t
  store i32 %s, ptr %o, align 4
  ret void
}}
"""
    )


def permuted(step: int) -> str:
    """out[i] = in of the lane whose number differs by the xor of `step`, as AMD's GPUs have it: lanes are counted in bytes."""
    return f"""\
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
define amdgpu_kernel void @permuted(ptr addrspace(1) %in, ptr addrspace(1) %out) {{
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %v = load i32, ptr addrspace(1) %p, align 4
  %lane = xor i32 %t, {step}
  %bytes = shl i32 %lane, 2
  %s = call i32 @llvm.amdgcn.ds.bpermute(i32 %bytes, i32 %v)
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %s, ptr addrspace(1) %o, align 4
  ret void
}}
"""


def masked(count: int) -> str:
    """out[i] = 2 in[i], `count` elements, four a thread; the last vector is masked."""
    return (
        HEAD
        + f"""
define ptx_kernel void @masked(ptr %in, ptr %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %n = shl i32 %t, 2
  %h = insertelement <4 x i32> poison, i32 %n, i32 0
  %b = shufflevector <4 x i32> %h, <4 x i32> poison, <4 x i32> zeroinitializer
  %i = add <4 x i32> %b, <i32 0, i32 1, i32 2, i32 3>
  %m = icmp ult <4 x i32> %i, splat (i32 {count})
  %p = getelementptr float, ptr %in, i32 %n
  %v = call <4 x float> @llvm.masked.load.v4f32.p0(ptr align 4 %p, <4 x i1> %m, <4 x float> zeroinitializer)
  %w = fadd <4 x float> %v, %v
  %o = getelementptr float, ptr %out, i32 %n
  call void @llvm.masked.store.v4f32.p0(<4 x float> %w, ptr align 4 %o, <4 x i1> %m)
  ret void
}}
"""
    )


def atomic_sum() -> str:
    """out[0] += in[i]."""
    return (
        HEAD
        + """
define ptx_kernel void @atomic_sum(ptr %in, ptr %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %s = mul i32 %b, %n
  %i = add i32 %s, %t
  %p = getelementptr float, ptr %in, i32 %i
  %v = load float, ptr %p, align 4
  %old = atomicrmw fadd ptr %out, float %v monotonic, align 4
  ret void
}
"""
    )


def private(count: int) -> str:
    """out = in reversed through an array of eight in the thread's own memory, `count` elements."""
    return (
        HEAD
        + f"""
define ptx_kernel void @private(ptr %in, ptr %out) {{
entry:
  %a = alloca [8 x float], align 16
  br label %fill
fill:
  %i = phi i32 [ 0, %entry ], [ %i1, %fill ]
  %p = getelementptr float, ptr %in, i32 %i
  %v = load float, ptr %p, align 4
  %q = getelementptr float, ptr %a, i32 %i
  store float %v, ptr %q, align 4
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, {count}
  br i1 %more, label %fill, label %wait
wait:
  call void @llvm.nvvm.barrier0()
  br label %empty
empty:
  %j = phi i32 [ 0, %wait ], [ %j1, %empty ]
  %k = sub i32 {count - 1}, %j
  %r = getelementptr float, ptr %a, i32 %k
  %w = load float, ptr %r, align 4
  %o = getelementptr float, ptr %out, i32 %j
  store float %w, ptr %o, align 4
  %j1 = add i32 %j, 1
  %again = icmp ult i32 %j1, {count}
  br i1 %again, label %empty, label %done
done:
  ret void
}}
"""
    )


def vector_at(element: int) -> str:
    """Four floats from an element on, as one access of 16 bytes."""
    return (
        HEAD
        + f"""
define ptx_kernel void @vector_at(ptr %in, ptr %out) {{
  %p = getelementptr float, ptr %in, i32 {element}
  %v = load <4 x float>, ptr %p, align 16
  store <4 x float> %v, ptr %out, align 16
  ret void
}}
"""
    )


def divergent(how: str) -> str:
    """The threads below 16 meet a barrier that the others do not: these "end", meet an"other", or wait in a "shuffle"."""
    others = {
        "end": "  ret void",
        "other": "  call void @llvm.nvvm.barrier0()\n  ret void",
        "shuffle": "  %x = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float 0.0, i32 1, i32 31)\n  ret void",
    }[how]
    return (
        HEAD
        + f"""
define ptx_kernel void @divergent(ptr %in, ptr %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %low = icmp ult i32 %t, 16
  br i1 %low, label %meet, label %others
meet:
  call void @llvm.nvvm.barrier0()
  ret void
others:
{others}
}}
"""
    )


def writes_input() -> str:
    """in[0] = 1."""
    return (
        HEAD
        + """
define ptx_kernel void @writes_input(ptr %in, ptr %out) {
  store float 1.0, ptr %in, align 4
  ret void
}
"""
    )


def inline_assembly() -> str:
    """What the emulator does not know."""
    return (
        HEAD
        + """
define ptx_kernel void @inline_assembly(ptr %in, ptr %out) {
  call void asm sideeffect "exit;", ""()
  ret void
}
"""
    )
