"""What the emulator looks at when a thread touches memory, as LLVM IR: bounds, alignment, and races between barriers.

Every access goes through one of these; it gives the pointer back, or, when the access is wrong, a place where it can do no
harm (the scheduler ends the launch as soon as the thread stops).

Two accesses to one byte, at least one of them a write, race unless something orders them: the same thread, a barrier of the
block between the two, or a barrier of the warp for two threads of it. Blocks of one launch are never ordered. Each grain of
shared memory and of what kernels write (the smallest access of the module: 1 to 8 bytes) has a record of its last writer
and readers, stamped with the number of the last synchronisation. Of several readers in one interval it
keeps two, of different warps if there are: whoever writes then is not ordered after one of them at least.
"""

from __future__ import annotations

from .layout import ANYWHERE, ATOMIC, MISALIGNED, OUTSIDE, PRIVATE, RACE, READ, READ_ONLY, SHARED, expand

_BOUNDS = f"""
@emu.harmless = internal global [1024 x i8] zeroinitializer, align 64

define internal ptr @emu.refused(ptr %l, ptr %thread, i32 %error, i32 %site, i64 %address,
                           i64 %size, i32 %where) cold noinline {{
  %known = get launch.error %l
  %first = icmp eq i32 %known, 0
  br i1 %first, label %tell, label %done
tell:
  %tid = get thread.tid %thread
  call void @emu.fail(ptr %l, i32 %error, i32 %site, i32 %tid)
  put %address launch.error_address %l
  put %size launch.error_size %l
  put %where launch.error_where %l
  br label %done
done:
  call void @llvm.memset.p0.i64(ptr @emu.harmless, i8 -1, i64 1024, i1 false)
  ret ptr @emu.harmless
}}

define internal ptr @emu.access(ptr %thread, ptr %p, i64 %size, i64 %align, i32 %site, i32 %where,
                           i32 %mode) noinline {{
  %l = get thread.launch %thread
  %ranges = get launch.ranges %l
  %count = get launch.ranges_count %l
  %at = ptrtoint ptr %p to i64
  %end.at = add i64 %at, %size
  %is.shared = icmp eq i32 %where, {SHARED}
  %number = select i1 %is.shared, i32 %count, i32 %where
  %anywhere = icmp eq i32 %where, {ANYWHERE}
  br i1 %anywhere, label %search, label %known
known:
  %known64 = sext i32 %number to i64
  %known.range = getelementptr %range, ptr %ranges, i64 %known64
  br label %bounds
search:
  %s = phi i32 [ 0, %0 ], [ %s.next, %other ]
  %s64 = zext i32 %s to i64
  %s.range = getelementptr %range, ptr %ranges, i64 %s64
  %s.start = get range.start %s.range
  %s.end = get range.end %s.range
  %s.after = icmp uge i64 %at, %s.start
  %s.before = icmp ult i64 %at, %s.end
  %s.found = and i1 %s.after, %s.before
  br i1 %s.found, label %bounds, label %other
other:
  %s.next = add i32 %s, 1
  %s.over = icmp ugt i32 %s.next, %count
  br i1 %s.over, label %nowhere, label %search
nowhere:
  %r0 = call ptr @emu.refused(ptr %l, ptr %thread, i32 {OUTSIDE}, i32 %site, i64 %at, i64 %size, i32 {ANYWHERE})
  ret ptr %r0
bounds:
  %range = phi ptr [ %known.range, %known ], [ %s.range, %search ]
  %start = get range.start %range
  %end = get range.end %range
  %after = icmp uge i64 %at, %start
  %before = icmp ule i64 %end.at, %end
  %inside = and i1 %after, %before
  br i1 %inside, label %alignment, label %outside
outside:
  %offset = sub i64 %at, %start
  %r1 = call ptr @emu.refused(ptr %l, ptr %thread, i32 {OUTSIDE}, i32 %site, i64 %offset, i64 %size, i32 %number)
  ret ptr %r1
alignment:
  %low = sub i64 %align, 1
  %odd = and i64 %at, %low
  %straight = icmp eq i64 %odd, 0
  br i1 %straight, label %rights, label %misaligned
misaligned:
  %offset.2 = sub i64 %at, %start
  %r2 = call ptr @emu.refused(ptr %l, ptr %thread, i32 {MISALIGNED}, i32 %site, i64 %offset.2, i64 %align, i32 %number)
  ret ptr %r2
rights:
  %reads = icmp eq i32 %mode, {READ}
  %writable = get range.writable %range
  %may = icmp ne i32 %writable, 0
  %allowed = or i1 %reads, %may
  br i1 %allowed, label %races, label %protected
protected:
  %offset.3 = sub i64 %at, %start
  %r3 = call ptr @emu.refused(ptr %l, ptr %thread, i32 {READ_ONLY}, i32 %site, i64 %offset.3, i64 %size, i32 %number)
  ret ptr %r3
races:
  %shadow = get range.shadow %range
  %none = icmp eq ptr %shadow, null
  br i1 %none, label %fine, label %look
look:
  %first = sub i64 %at, %start
  %kind = get range.kind %range
  call void @emu.touch(ptr %l, ptr %thread, ptr %shadow, i64 %first, i64 %size, i32 %site, i32 %kind, i32 %mode, i32 %number)
  br label %fine
fine:
  ret ptr %p
}}

; An access through an object of the thread's own, or a table of the module: bounds and alignment.
define internal ptr @emu.object(ptr %thread, ptr %p, i64 %size, i64 %align, i32 %site, ptr %first,
                           ptr %last) noinline {{
  %at = ptrtoint ptr %p to i64
  %start = ptrtoint ptr %first to i64
  %end = ptrtoint ptr %last to i64
  %end.at = add i64 %at, %size
  %after = icmp uge i64 %at, %start
  %before = icmp ule i64 %end.at, %end
  %inside = and i1 %after, %before
  br i1 %inside, label %fine, label %outside
outside:
  %l = get thread.launch %thread
  %offset = sub i64 %at, %start
  %r = call ptr @emu.refused(ptr %l, ptr %thread, i32 {OUTSIDE}, i32 %site, i64 %offset, i64 %size, i32 {PRIVATE})
  ret ptr %r
fine:
  ret ptr %p
}}

; A masked access: each lane that is on, by itself.
define internal ptr @emu.lanes(ptr %thread, ptr %p, i64 %size, i64 %lanes, i64 %mask, i64 %align,
                           i32 %site, i32 %where, i32 %mode) noinline {{
  br label %loop
loop:
  %n = phi i64 [ 0, %0 ], [ %n.next, %next ]
  %q = phi ptr [ %p, %0 ], [ %q.next, %next ]
  %more = icmp ult i64 %n, %lanes
  br i1 %more, label %lane, label %fine
lane:
  %shifted = lshr i64 %mask, %n
  %low = and i64 %shifted, 1
  %on = icmp ne i64 %low, 0
  br i1 %on, label %check, label %next
check:
  %offset = mul i64 %n, %size
  %at = getelementptr i8, ptr %p, i64 %offset
  %got = call ptr @emu.access(ptr %thread, ptr %at, i64 %size, i64 %size, i32 %site, i32 %where, i32 %mode)
  %bad = icmp ne ptr %got, %at
  br i1 %bad, label %wrong, label %next
next:
  %q.next = phi ptr [ %q, %lane ], [ %q, %check ]
  %n.next = add i64 %n, 1
  br label %loop
wrong:
  ret ptr @emu.harmless
fine:
  ret ptr %p
}}
"""

_RACES = f"""
; Whether an earlier access is ordered before this thread's next one.
define internal i1 @emu.ordered(ptr %l, i32 %tid, i32 %who, i32 %when, i32 %kind) {{
  %launch.start = get launch.launch_start %l
  %block.start = get launch.block_start %l
  %block.sync = get launch.block_sync %l
  %is.shared = icmp eq i32 %kind, 1
  %life = select i1 %is.shared, i32 %block.start, i32 %launch.start
  %old = icmp ult i32 %when, %life
  br i1 %old, label %yes, label %recent
recent:
  %other.block = icmp ult i32 %when, %block.start
  br i1 %other.block, label %no, label %same.block
same.block:
  %same = icmp eq i32 %who, %tid
  br i1 %same, label %yes, label %barrier
barrier:
  %apart = icmp ult i32 %when, %block.sync
  br i1 %apart, label %yes, label %warp
warp:
  %lanes = get launch.lanes %l
  %mine = udiv i32 %tid, %lanes
  %theirs = udiv i32 %who, %lanes
  %one.warp = icmp eq i32 %mine, %theirs
  br i1 %one.warp, label %warp.barrier, label %no
warp.barrier:
  %warps = get launch.warps %l
  %mine64 = zext i32 %mine to i64
  %stamp = getelementptr i32, ptr %warps, i64 %mine64
  %synced = load i32, ptr %stamp
  %before = icmp ult i32 %when, %synced
  ret i1 %before
yes:
  ret i1 true
no:
  ret i1 false
}}

; Writers are kept as 2 * thread + (1 if it was atomic).
define internal void @emu.touch(ptr %l, ptr %thread, ptr %shadow, i64 %first, i64 %size, i32 %site,
                           i32 %kind, i32 %mode, i32 %where) {{
  %tid = get thread.tid %thread
  %now = get launch.now %l
  %reads = icmp eq i32 %mode, {READ}
  %atomic = icmp eq i32 %mode, {ATOMIC}
  %atomic.bit = zext i1 %atomic to i32
  %twice = shl i32 %tid, 1
  %me = or i32 %twice, %atomic.bit
  %last = add i64 %first, %size
  %shift = get launch.shift %l
  %shift64 = zext i32 %shift to i64
  %grain = shl i64 1, %shift64
  br label %loop
loop:
  %n = phi i64 [ %first, %0 ], [ %n.next, %next ]
  %more = icmp ult i64 %n, %last
  br i1 %more, label %record, label %done
record:
  %index = lshr i64 %n, %shift64
  %s = getelementptr %shadow, ptr %shadow, i64 %index
  %writer = get shadow.writer %s
  %written = get shadow.written %s
  %write.site = get shadow.write_site %s
  %writer.tid = lshr i32 %writer, 1
  %writer.atomic = and i32 %writer, 1
  %writer.was = icmp ne i32 %writer.atomic, 0
  %both = and i1 %writer.was, %atomic
  %after.write = call i1 @emu.ordered(ptr %l, i32 %tid, i32 %writer.tid, i32 %written, i32 %kind)
  %write.fine = or i1 %after.write, %both
  br i1 %write.fine, label %is.read, label %race.write
is.read:
  br i1 %reads, label %mark.read, label %readers
readers:
  %reader = get shadow.reader %s
  %read = get shadow.read %s
  %read.site = get shadow.read_site %s
  %after.read = call i1 @emu.ordered(ptr %l, i32 %tid, i32 %reader, i32 %read, i32 %kind)
  br i1 %after.read, label %readers.2, label %race.read
readers.2:
  %reader.2 = get shadow.reader_2 %s
  %read.2 = get shadow.read_2 %s
  %after.read.2 = call i1 @emu.ordered(ptr %l, i32 %tid, i32 %reader.2, i32 %read.2, i32 %kind)
  br i1 %after.read.2, label %mark.write, label %race.read
mark.write:
  put %me shadow.writer %s
  put %now shadow.written %s
  put %site shadow.write_site %s
  br label %next
mark.read:
  %one = get shadow.reader %s
  %one.when = get shadow.read %s
  %one.over = call i1 @emu.ordered(ptr %l, i32 %tid, i32 %one, i32 %one.when, i32 %kind)
  br i1 %one.over, label %note, label %second
second:
  %two = get shadow.reader_2 %s
  %two.when = get shadow.read_2 %s
  %two.over = call i1 @emu.ordered(ptr %l, i32 %tid, i32 %two, i32 %two.when, i32 %kind)
  %lanes = get launch.lanes %l
  %one.warp = udiv i32 %one, %lanes
  %two.warp = udiv i32 %two, %lanes
  %my.warp = udiv i32 %tid, %lanes
  %alike = icmp eq i32 %one.warp, %two.warp
  %unlike = icmp ne i32 %one.warp, %my.warp
  %tells.more = and i1 %alike, %unlike
  %replace = or i1 %two.over, %tells.more
  br i1 %replace, label %note.second, label %next
note:
  put %tid shadow.reader %s
  put %now shadow.read %s
  put %site shadow.read_site %s
  br label %next
note.second:
  put %tid shadow.reader_2 %s
  put %now shadow.read_2 %s
  br label %next
next:
  %n.next = add i64 %n, %grain
  br label %loop
race.write:
  call void @emu.race(ptr %l, ptr %thread, i32 %site, i32 %writer.tid, i32 %write.site, i64 %n, i64 %size, i32 %where)
  ret void
race.read:
  %culprit = phi i32 [ %reader, %readers ], [ %reader.2, %readers.2 ]
  call void @emu.race(ptr %l, ptr %thread, i32 %site, i32 %culprit, i32 %read.site, i64 %n, i64 %size, i32 %where)
  ret void
done:
  ret void
}}

define internal void @emu.race(ptr %l, ptr %thread, i32 %site, i32 %other, i32 %other.site,
                           i64 %at, i64 %size, i32 %where) cold noinline {{
  %known = get launch.error %l
  %first = icmp eq i32 %known, 0
  br i1 %first, label %tell, label %done
tell:
  %r = call ptr @emu.refused(ptr %l, ptr %thread, i32 {RACE}, i32 %site, i64 %at, i64 %size, i32 %where)
  put %other launch.error_other %l
  put %other.site launch.error_other_site %l
  br label %done
done:
  ret void
}}
"""

CHECKS = expand(_BOUNDS + _RACES)
