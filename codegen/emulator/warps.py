"""Warp collectives of the emulator, and how threads wait, as LLVM IR."""

from __future__ import annotations

from .layout import (
    ABSENT_LANE,
    AT_BARRIER,
    AT_WARP,
    BUTTERFLY,
    DONE,
    DOWN,
    INDEX,
    PERMUTE,
    READY,
    UP,
    WARP_BARRIER,
    expand,
)

_WARP = f"""
; A thread waits in a warp collective: when it is the first of its group and all of the group are there, they go on.
define internal i1 @emu.warp(ptr %l, ptr %thread) {{
  %tid = get thread.tid %thread
  %mask = get thread.mask %thread
  %site = get thread.site %thread
  %op = get thread.op %thread
  %count = get launch.count %l
  %threads = get launch.threads %l
  %all.lanes = get launch.lanes %l
  %lane = urem i32 %tid, %all.lanes
  %first = sub i32 %tid, %lane
  %left = sub i32 %count, %first
  %partial = icmp ult i32 %left, %all.lanes
  %lanes = select i1 %partial, i32 %left, i32 %all.lanes
  %lane64 = zext i32 %lane to i64
  %bit = shl i64 1, %lane64
  %in.mask = and i64 %mask, %bit
  %absent = icmp eq i64 %in.mask, 0
  br i1 %absent, label %not.named, label %lead
not.named:
  call void @emu.fail(ptr %l, i32 {ABSENT_LANE}, i32 %site, i32 %tid)
  ret i1 false
lead:
  %lower = sub i64 %bit, 1
  %before = and i64 %mask, %lower
  %leads = icmp eq i64 %before, 0
  br i1 %leads, label %gather, label %no
gather:
  %g = phi i32 [ 0, %lead ], [ %g.next, %present ]
  %g.wide = zext i32 %g to i64
  %g.bit = shl i64 1, %g.wide
  %g.in = and i64 %mask, %g.bit
  %g.named = icmp ne i64 %g.in, 0
  %g.tid = add i32 %first, %g
  %g64 = zext i32 %g.tid to i64
  %g.thread = getelementptr %thread, ptr %threads, i64 %g64
  %g.status = get thread.status %g.thread
  %g.site = get thread.site %g.thread
  %g.mask = get thread.mask %g.thread
  %a = icmp eq i32 %g.status, {AT_WARP}
  %b = icmp eq i32 %g.site, %site
  %c = icmp eq i64 %g.mask, %mask
  %ab = and i1 %a, %b
  %abc = and i1 %ab, %c
  %unnamed = xor i1 %g.named, true
  %fine = or i1 %abc, %unnamed
  br i1 %fine, label %present, label %no
present:
  %g.next = add i32 %g, 1
  %gathered = icmp eq i32 %g.next, %lanes
  br i1 %gathered, label %kind, label %gather
kind:
  %is.barrier = icmp eq i32 %op, {WARP_BARRIER}
  br i1 %is.barrier, label %barrier, label %exchange
barrier:
  %was = get launch.now %l
  %now = add i32 %was, 1
  put %now launch.now %l
  %warps = get launch.warps %l
  %warp = udiv i32 %tid, %all.lanes
  %warp64 = zext i32 %warp to i64
  %stamp = getelementptr i32, ptr %warps, i64 %warp64
  store i32 %now, ptr %stamp
  br label %free
exchange:
  %e = phi i32 [ 0, %kind ], [ %e.next, %exchanged ]
  %e.wide = zext i32 %e to i64
  %e.bit = shl i64 1, %e.wide
  %e.in = and i64 %mask, %e.bit
  %e.named = icmp ne i64 %e.in, 0
  br i1 %e.named, label %one, label %exchanged
one:
  %e.tid = add i32 %first, %e
  %e64 = zext i32 %e.tid to i64
  %e.thread = getelementptr %thread, ptr %threads, i64 %e64
  %from = call i32 @emu.source.lane(ptr %e.thread, i32 %e, i32 %all.lanes)
  %from.wide = zext i32 %from to i64
  %from.bit = shl i64 1, %from.wide
  %from.in = and i64 %mask, %from.bit
  %from.named = icmp ne i64 %from.in, 0
  %from.exists = icmp ult i32 %from, %lanes
  %from.there = and i1 %from.named, %from.exists
  br i1 %from.there, label %take, label %nothing
take:
  %from.tid = add i32 %first, %from
  %from64 = zext i32 %from.tid to i64
  %from.thread = getelementptr %thread, ptr %threads, i64 %from64
  %value = get thread.value %from.thread
  put %value thread.result %e.thread
  br label %exchanged
nothing:
  put 2143337168 thread.result %e.thread
  br label %exchanged
exchanged:
  %e.next = add i32 %e, 1
  %all = icmp eq i32 %e.next, %lanes
  br i1 %all, label %free, label %exchange
free:
  %f = phi i32 [ 0, %barrier ], [ 0, %exchanged ], [ %f.next, %freed ]
  %f.wide = zext i32 %f to i64
  %f.bit = shl i64 1, %f.wide
  %f.in = and i64 %mask, %f.bit
  %f.named = icmp ne i64 %f.in, 0
  br i1 %f.named, label %let.go, label %freed
let.go:
  %f.tid = add i32 %first, %f
  %f64 = zext i32 %f.tid to i64
  %f.thread = getelementptr %thread, ptr %threads, i64 %f64
  put {READY} thread.status %f.thread
  br label %freed
freed:
  %f.next = add i32 %f, 1
  %over = icmp eq i32 %f.next, %lanes
  br i1 %over, label %yes, label %free
yes:
  ret i1 true
no:
  ret i1 false
}}

; The lane that a shuffle reads: the formulas of the PTX manual, with its names, for 32 lanes; a permutation names 4 * lane.
define internal i32 @emu.source.lane(ptr %thread, i32 %lane, i32 %lanes) {{
  %op = get thread.op %thread
  %b = get thread.b %thread
  %c = get thread.c %thread
  %bval = and i32 %b, 31
  %cval = and i32 %c, 31
  %c.high = lshr i32 %c, 8
  %segment = and i32 %c.high, 31
  %outside = xor i32 %segment, 31
  %min.lane = and i32 %lane, %segment
  %c.free = and i32 %cval, %outside
  %max.lane = or i32 %min.lane, %c.free
  %up = sub i32 %lane, %bval
  %down = add i32 %lane, %bval
  %butterfly = xor i32 %lane, %bval
  %b.free = and i32 %bval, %outside
  %index = or i32 %min.lane, %b.free
  %up.holds = icmp sge i32 %up, %max.lane
  %down.holds = icmp sle i32 %down, %max.lane
  %butterfly.holds = icmp sle i32 %butterfly, %max.lane
  %index.holds = icmp sle i32 %index, %max.lane
  switch i32 %op, label %of.index [ i32 {UP}, label %of.up i32 {DOWN}, label %of.down i32 {BUTTERFLY}, label %of.butterfly
                                    i32 {INDEX}, label %of.index i32 {PERMUTE}, label %of.permute ]
of.up:
  %r0 = select i1 %up.holds, i32 %up, i32 %lane
  ret i32 %r0
of.down:
  %r1 = select i1 %down.holds, i32 %down, i32 %lane
  ret i32 %r1
of.butterfly:
  %r2 = select i1 %butterfly.holds, i32 %butterfly, i32 %lane
  ret i32 %r2
of.permute:
  %number = lshr i32 %b, 2
  %r4 = urem i32 %number, %lanes
  ret i32 %r4
of.index:
  %r3 = select i1 %index.holds, i32 %index, i32 %lane
  ret i32 %r3
}}
"""

_WAITING = f"""
define internal void @emu.wait.block(ptr %thread, i32 %site) alwaysinline {{
  put {AT_BARRIER} thread.status %thread
  put %site thread.site %thread
  ret void
}}

define internal void @emu.wait.warp(ptr %thread, i32 %site, i32 %op, i64 %mask, i32 %value, i32 %b, i32 %c) alwaysinline {{
  put {AT_WARP} thread.status %thread
  put %site thread.site %thread
  put %op thread.op %thread
  put %mask thread.mask %thread
  put %value thread.value %thread
  put %b thread.b %thread
  put %c thread.c %thread
  ret void
}}

define internal i32 @emu.result(ptr %thread) alwaysinline {{
  %result = get thread.result %thread
  ret i32 %result
}}

define internal void @emu.ended(ptr %thread) alwaysinline {{
  put {DONE} thread.status %thread
  ret void
}}
"""

WARPS = expand(_WARP)
WAITING = expand(_WAITING)  # goes into the kernels' own module, where it is inlined
