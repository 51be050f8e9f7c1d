"""The emulator's scheduler, as LLVM IR: blocks one after the other, the threads of a block in sweeps.

A thread runs until it waits at a barrier or in a warp collective (or ends); then the next one runs. After each sweep,
whoever waits for nothing more is released. When nobody is, the kernel is at fault, and the launch ends with an error.
The order of a sweep is random where a seed is given.
"""

from __future__ import annotations

from .layout import AT_BARRIER, AT_WARP, DIVERGED, DONE, READY, STUCK, expand, struct_bytes

_LAUNCH = f"""
declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @aligned_alloc(i64, i64)
declare ptr @malloc(i64)
declare void @free(ptr)

define internal void @emu.fail(ptr %l, i32 %error, i32 %site, i32 %thread) {{
  %known = get launch.error %l
  %first = icmp eq i32 %known, 0
  br i1 %first, label %tell, label %done
tell:
  put %error launch.error %l
  put %site launch.error_site %l
  put %thread launch.error_thread %l
  %block = get launch.block %l
  put %block launch.error_block %l
  br label %done
done:
  ret void
}}

define internal void @emu.launch(ptr %l, ptr %start) {{
  %x = get launch.grid_x %l
  %y = get launch.grid_y %l
  %z = get launch.grid_z %l
  %x64 = zext i32 %x to i64
  %y64 = zext i32 %y to i64
  %z64 = zext i32 %z to i64
  %xy = mul i64 %x64, %y64
  %blocks = mul i64 %xy, %z64
  %stride = get launch.block_stride %l
  %first = get launch.first_block %l
  %before = get launch.now %l
  %now = add i32 %before, 1
  put %now launch.now %l
  put %now launch.launch_start %l
  br label %loop
loop:
  %n = phi i64 [ 0, %0 ], [ %n.next, %after ]
  %block = phi i64 [ %first, %0 ], [ %block.next, %after ]
  %more = icmp ult i64 %n, %blocks
  br i1 %more, label %body, label %done
body:
  put %block launch.block %l
  %plane = udiv i64 %block, %xy
  %in.plane = urem i64 %block, %xy
  %row = udiv i64 %in.plane, %x64
  %column = urem i64 %in.plane, %x64
  %bz = trunc i64 %plane to i32
  %by = trunc i64 %row to i32
  %bx = trunc i64 %column to i32
  put %bx launch.ctaid_x %l
  put %by launch.ctaid_y %l
  put %bz launch.ctaid_z %l
  call void @emu.block(ptr %l, ptr %start)
  %error = get launch.error %l
  %bad = icmp ne i32 %error, 0
  br i1 %bad, label %done, label %after
after:
  %n.next = add i64 %n, 1
  %moved = add i64 %block, %stride
  %block.next = urem i64 %moved, %blocks
  br label %loop
done:
  ret void
}}

define internal void @emu.block(ptr %l, ptr %start) {{
  %shared = get launch.shared %l
  %shared.bytes = get launch.shared_bytes %l
  call void @llvm.memset.p0.i64(ptr %shared, i8 -1, i64 %shared.bytes, i1 false)
  %before = get launch.now %l
  %now = add i32 %before, 1
  put %now launch.now %l
  put %now launch.block_start %l
  put %now launch.block_sync %l
  %count = get launch.count %l
  %threads = get launch.threads %l
  %arguments = get launch.arguments %l
  %order = get launch.order %l
  %bx = get launch.block_x %l
  %by = get launch.block_y %l
  br label %create
create:
  %t = phi i32 [ 0, %0 ], [ %t.next, %create ]
  %t64 = zext i32 %t to i64
  %thread = getelementptr %thread, ptr %threads, i64 %t64
  call void @llvm.memset.p0.i64(ptr %thread, i8 0, i64 {struct_bytes("thread")}, i1 false)
  put %l thread.launch %thread
  put %t thread.tid %thread
  %x = urem i32 %t, %bx
  %rest = udiv i32 %t, %bx
  %y = urem i32 %rest, %by
  %z = udiv i32 %rest, %by
  put %x thread.x %thread
  put %y thread.y %thread
  put %z thread.z %thread
  %slot = getelementptr i32, ptr %order, i64 %t64
  store i32 %t, ptr %slot
  %handle = call ptr %start(ptr %thread, ptr %arguments)
  put %handle thread.handle %thread
  %t.next = add i32 %t, 1
  %created = icmp eq i32 %t.next, %count
  br i1 %created, label %sweep, label %create
sweep:
  call void @emu.shuffle.order(ptr %l)
  br label %resume
resume:
  %i = phi i32 [ 0, %sweep ], [ %i.next, %next ]
  %i64 = zext i32 %i to i64
  %slot.i = getelementptr i32, ptr %order, i64 %i64
  %ti = load i32, ptr %slot.i
  %ti64 = zext i32 %ti to i64
  %one = getelementptr %thread, ptr %threads, i64 %ti64
  %status = get thread.status %one
  %ready = icmp eq i32 %status, {READY}
  br i1 %ready, label %run, label %next
run:
  %h = get thread.handle %one
  call void @llvm.coro.resume(ptr %h)
  %error = get launch.error %l
  %bad = icmp ne i32 %error, 0
  br i1 %bad, label %clean, label %next
next:
  %i.next = add i32 %i, 1
  %swept = icmp eq i32 %i.next, %count
  br i1 %swept, label %release, label %resume
release:
  %again = call i1 @emu.release(ptr %l)
  br i1 %again, label %sweep, label %clean
clean:
  br label %destroy
destroy:
  %d = phi i32 [ 0, %clean ], [ %d.next, %destroy ]
  %d64 = zext i32 %d to i64
  %dead = getelementptr %thread, ptr %threads, i64 %d64
  call void @emu.copies.complete(ptr %dead, i32 2147483647, i1 false)
  %dh = get thread.handle %dead
  call void @llvm.coro.destroy(ptr %dh)
  %d.next = add i32 %d, 1
  %destroyed = icmp eq i32 %d.next, %count
  br i1 %destroyed, label %done, label %destroy
done:
  ret void
}}

; Fisher and Yates, with xorshift
define internal void @emu.shuffle.order(ptr %l) {{
  %state = get launch.random %l
  %ordered = icmp eq i64 %state, 0
  br i1 %ordered, label %done, label %start
start:
  %count = get launch.count %l
  %order = get launch.order %l
  br label %loop
loop:
  %left = phi i32 [ %count, %start ], [ %left.next, %swap ]
  %s = phi i64 [ %state, %start ], [ %s3, %swap ]
  %more = icmp ugt i32 %left, 1
  br i1 %more, label %swap, label %end
swap:
  %a = shl i64 %s, 13
  %s1 = xor i64 %s, %a
  %b = lshr i64 %s1, 7
  %s2 = xor i64 %s1, %b
  %c = shl i64 %s2, 17
  %s3 = xor i64 %s2, %c
  %high = lshr i64 %s3, 33
  %left64 = zext i32 %left to i64
  %pick = urem i64 %high, %left64
  %left.next = sub i32 %left, 1
  %last = zext i32 %left.next to i64
  %p = getelementptr i32, ptr %order, i64 %pick
  %q = getelementptr i32, ptr %order, i64 %last
  %pv = load i32, ptr %p
  %qv = load i32, ptr %q
  store i32 %qv, ptr %p
  store i32 %pv, ptr %q
  br label %loop
end:
  put %s launch.random %l
  br label %done
done:
  ret void
}}
"""

_RELEASE = f"""
; Lets go whoever waits for nothing more. False when the block has ended, well or with an error.
define internal i1 @emu.release(ptr %l) {{
  %count = get launch.count %l
  %threads = get launch.threads %l
  br label %scan
scan:
  %t = phi i32 [ 0, %0 ], [ %t.next, %next ]
  %done = phi i32 [ 0, %0 ], [ %done.next, %next ]
  %waiting = phi i32 [ 0, %0 ], [ %waiting.next, %next ]
  %site = phi i32 [ -1, %0 ], [ %site.next, %next ]
  %waiter = phi i32 [ 0, %0 ], [ %waiter.next, %next ]
  %same = phi i1 [ true, %0 ], [ %same.next, %next ]
  %freed = phi i1 [ false, %0 ], [ %freed.next, %next ]
  %t64 = zext i32 %t to i64
  %thread = getelementptr %thread, ptr %threads, i64 %t64
  %status = get thread.status %thread
  %here = get thread.site %thread
  %is.done = icmp eq i32 %status, {DONE}
  %is.waiting = icmp eq i32 %status, {AT_BARRIER}
  %is.warp = icmp eq i32 %status, {AT_WARP}
  %done.one = zext i1 %is.done to i32
  %done.next = add i32 %done, %done.one
  %waiting.one = zext i1 %is.waiting to i32
  %waiting.next = add i32 %waiting, %waiting.one
  %first = icmp eq i32 %site, -1
  %sets = and i1 %is.waiting, %first
  %site.next = select i1 %sets, i32 %here, i32 %site
  %waiter.next = select i1 %is.waiting, i32 %t, i32 %waiter
  %equal = icmp eq i32 %site.next, %here
  %not.waiting = xor i1 %is.waiting, true
  %fits = or i1 %equal, %not.waiting
  %same.next = and i1 %same, %fits
  br i1 %is.warp, label %warp, label %next
warp:
  %went = call i1 @emu.warp(ptr %l, ptr %thread)
  br label %next
next:
  %went.on = phi i1 [ false, %scan ], [ %went, %warp ]
  %freed.next = or i1 %freed, %went.on
  %t.next = add i32 %t, 1
  %scanned = icmp eq i32 %t.next, %count
  br i1 %scanned, label %judge, label %scan
judge:
  %error = get launch.error %l
  %bad = icmp ne i32 %error, 0
  br i1 %bad, label %stop, label %go.on
go.on:
  br i1 %freed.next, label %again, label %nobody
nobody:
  %ended = icmp eq i32 %done.next, %count
  br i1 %ended, label %stop, label %barrier
barrier:
  %arrived = add i32 %done.next, %waiting.next
  %all = icmp eq i32 %arrived, %count
  br i1 %all, label %complete, label %stuck
complete:
  %nobody.ended = icmp eq i32 %done.next, 0
  %right = and i1 %nobody.ended, %same.next
  br i1 %right, label %open, label %diverged
diverged:
  put %done.next launch.error_other %l
  call void @emu.fail(ptr %l, i32 {DIVERGED}, i32 %site.next, i32 %waiter.next)
  br label %stop
stuck:
  call void @emu.stuck(ptr %l)
  br label %stop
open:
  %before = get launch.now %l
  %now = add i32 %before, 1
  put %now launch.now %l
  put %now launch.block_sync %l
  br label %wake
wake:
  %w = phi i32 [ 0, %open ], [ %w.next, %wake ]
  %w64 = zext i32 %w to i64
  %woken = getelementptr %thread, ptr %threads, i64 %w64
  put {READY} thread.status %woken
  %w.next = add i32 %w, 1
  %woke = icmp eq i32 %w.next, %count
  br i1 %woke, label %again, label %wake
again:
  ret i1 true
stop:
  ret i1 false
}}

; Nobody can go on: the first thread that waits in a warp collective is named.
define internal void @emu.stuck(ptr %l) {{
  %threads = get launch.threads %l
  %count = get launch.count %l
  br label %scan
scan:
  %t = phi i32 [ 0, %0 ], [ %t.next, %next ]
  %t64 = zext i32 %t to i64
  %thread = getelementptr %thread, ptr %threads, i64 %t64
  %status = get thread.status %thread
  %found = icmp eq i32 %status, {AT_WARP}
  br i1 %found, label %tell, label %next
next:
  %t.next = add i32 %t, 1
  %over = icmp eq i32 %t.next, %count
  br i1 %over, label %done, label %scan
tell:
  %site = get thread.site %thread
  call void @emu.fail(ptr %l, i32 {STUCK}, i32 %site, i32 %t)
  br label %done
done:
  ret void
}}
"""

SCHEDULE = expand(_LAUNCH + _RELEASE)
