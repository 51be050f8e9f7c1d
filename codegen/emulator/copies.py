"""Asynchronous copies of the emulator, as LLVM IR: their bytes come when the thread waits for them, and not before."""

from __future__ import annotations

from .layout import PRIVATE, expand, struct_bytes

_COPIES = f"""
; An asynchronous copy: its place is written (as far as races go) from here on until its wait; the bytes come at the wait.
define internal void @emu.copy(ptr %thread, ptr %to, ptr %from, i32 %size, i32 %real, i32 %site,
                           i32 %to.where, i32 %from.where) {{
  %size64 = zext i32 %size to i64
  %real64 = zext i32 %real to i64
  %to.ok = call ptr @emu.access(ptr %thread, ptr %to, i64 %size64, i64 %size64, i32 %site, i32 %to.where, i32 1)
  %to.bad = icmp ne ptr %to.ok, %to
  br i1 %to.bad, label %done, label %source
source:
  %nothing = icmp eq i32 %real, 0
  %checked = icmp eq i32 %from.where, {PRIVATE}
  %fine = or i1 %nothing, %checked
  br i1 %fine, label %keep, label %look
look:
  %from.ok = call ptr @emu.access(ptr %thread, ptr %from, i64 %real64, i64 %size64, i32 %site, i32 %from.where, i32 0)
  %from.bad = icmp ne ptr %from.ok, %from
  br i1 %from.bad, label %done, label %keep
keep:
  %copy = call ptr @malloc(i64 {struct_bytes("copy")})
  put null copy.next %copy
  put %to copy.to %copy
  put %from copy.source %copy
  put %size copy.size %copy
  put %real copy.real %copy
  put %site copy.site %copy
  put %to.where copy.where %copy
  %group = get thread.groups %thread
  put %group copy.group %copy
  %tail = get thread.tail %thread
  put %copy thread.tail %thread
  %empty = icmp eq ptr %tail, null
  br i1 %empty, label %head, label %append
head:
  put %copy thread.head %thread
  br label %done
append:
  put %copy copy.next %tail
  br label %done
done:
  ret void
}}

define internal void @emu.copies.commit(ptr %thread) {{
  %group = get thread.groups %thread
  %next = add i32 %group, 1
  put %next thread.groups %thread
  ret void
}}

; Waits until at most %left of the committed groups are under way.
define internal void @emu.copies.wait(ptr %thread, i32 %left) {{
  %groups = get thread.groups %thread
  %limit = sub i32 %groups, %left
  call void @emu.copies.complete(ptr %thread, i32 %limit, i1 true)
  ret void
}}

; Makes the copies of the groups below %limit, oldest first.
define internal void @emu.copies.complete(ptr %thread, i32 %limit, i1 %real.ones) {{
  br label %loop
loop:
  %copy = get thread.head %thread
  %none = icmp eq ptr %copy, null
  br i1 %none, label %done, label %look
look:
  %group = get copy.group %copy
  %due = icmp slt i32 %group, %limit
  br i1 %due, label %take, label %done
take:
  %next = get copy.next %copy
  put %next thread.head %thread
  %was.last = icmp eq ptr %next, null
  br i1 %was.last, label %last, label %make
last:
  put null thread.tail %thread
  br label %make
make:
  br i1 %real.ones, label %move, label %forget
move:
  %to = get copy.to %copy
  %from = get copy.source %copy
  %size = get copy.size %copy
  %real = get copy.real %copy
  %site = get copy.site %copy
  %where = get copy.where %copy
  %size64 = zext i32 %size to i64
  %real64 = zext i32 %real to i64
  %place = call ptr @emu.access(ptr %thread, ptr %to, i64 %size64, i64 %size64, i32 %site, i32 %where, i32 1)
  call void @llvm.memset.p0.i64(ptr %place, i8 0, i64 %size64, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %place, ptr %from, i64 %real64, i1 false)
  br label %forget
forget:
  call void @free(ptr %copy)
  br label %loop
done:
  ret void
}}
"""

COPIES = expand(_COPIES)
