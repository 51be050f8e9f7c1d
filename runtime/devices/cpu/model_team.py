"""One team of threads for all kernels of a model: it is forked once, and each parallel region is handed to it.

A model is a body that one thread runs, the master. The others wait. Where the master comes to a parallel region, which a
kernel opens as ever, they run it with the master and wait again; between regions nobody waits for anybody.

    void team(void (*body)(void *), void *given, unsigned threads)     runs the body as the master of a team
    void region(void (*region)(void *), void *data, unsigned threads, unsigned flags)    takes the place of GOMP_parallel

A thread finds its team by a key of the threads library, so a model may run in several threads at a time. A region for another
number of threads, and one outside of a model, is forked as before (team.py).

Who waits spins, which is what makes a region cheap; then gives the core to others that want it; then sleeps.

Measured on two cores of an EPYC (Zen 5) in a virtual machine (benchmarks/model_calls.py), models of 100 kernels, us for each
kernel with its work, medians: 64x1024 floats 1.48 in one team, 1.83 where every kernel forks one, 128x1024 2.21 and 2.60; 2x64
without a region 0.006. Regions on 2x64 floats, which no kernel would open: 0.37 and 1.28.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ....common.errors import EnvironmentFailure
from .jit import linked

TEAM = "tilesmith_team"  # how the code of models names `team`
_SPINS = 2_000  # some 50 us
_YIELDS = 10_000  # some ms, where nobody else wants the core
_NAP = 50_000  # nanoseconds
_X86, _ARM = "call void @llvm.x86.sse2.pause()", "call void @llvm.aarch64.hint(i32 1)"
_PAUSE = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


@lru_cache(maxsize=1)
def team_functions(parallel: int, thread_num: int, num_threads: int) -> Mapping[str, int]:
    """The addresses of `region` and `team`, by the names that code has for them. The arguments are the addresses of
    team.parallel, omp_get_thread_num and omp_get_num_threads."""
    process = ctypes.CDLL(None)
    key = ctypes.c_uint()
    if process.pthread_key_create(ctypes.byref(key), None):
        raise EnvironmentFailure("the threads library has no key left")
    addresses = {"parallel": parallel, "omp_get_thread_num": thread_num, "omp_get_num_threads": num_threads}
    for name in ("pthread_getspecific", "pthread_setspecific", "sched_yield", "nanosleep"):
        addresses[name] = ctypes.cast(getattr(process, name), ctypes.c_void_p).value or 0
    library = linked(_text(key.value), "region", addresses, ["team"])
    _kept.append(library)
    return {"GOMP_parallel": int(library["region"]), TEAM: int(library["team"])}


_kept: list[Any] = []

# What threads share lies in the stack of the master: a line of memory for each that writes.
_GENERATION, _REGION, _DATA, _ARRIVED, _BODY, _GIVEN, _THREADS, _WORKERS = 0, 8, 16, 64, 128, 136, 144, 152
_BYTES = 192


def _field(name: str, offset: int, of: str = "%team") -> str:
    return f"%{name} = getelementptr i8, ptr {of}, i64 {offset}"


def _text(key: int) -> str:
    functions = (_until(), _team(), _MEMBER, _lead(key), _follow(), _region(key))
    return "\n\n".join([_declarations(), *functions]) + "\n"


def _declarations() -> str:
    """Declares what the functions below call, and how long a nap is."""
    pause = _pause()
    declared = f"declare {pause.removeprefix('call ').replace(' 1', '')}"
    return f"""{declared if pause else ""}
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i32 @sched_yield()
declare i32 @nanosleep(ptr, ptr)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
declare void @parallel(ptr, ptr, i32, i32)
@nap = internal constant {{ i64, i64 }} {{ i64 0, i64 {_NAP} }}"""


def _until() -> str:
    """The function in which a thread waits until a place has a value."""
    return f"""define internal void @until(ptr %place, i64 %wanted) noinline {{
entry:
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %again ]
  %is = load atomic i64, ptr %place acquire, align 8
  %reached = icmp eq i64 %is, %wanted
  br i1 %reached, label %done, label %wait
wait:
  %next = add i64 %n, 1
  %spins = icmp ult i64 %n, {_SPINS}
  br i1 %spins, label %spin, label %long
spin:
  {_pause()}
  br label %again
long:
  %yields = icmp ult i64 %n, {_SPINS + _YIELDS}
  br i1 %yields, label %yield, label %sleep
yield:
  %yielded = call i32 @sched_yield()
  br label %again
sleep:
  %slept = call i32 @nanosleep(ptr @nap, ptr null)
  br label %again
again:
  br label %loop
done:
  ret void
}}"""


def _team() -> str:
    """The function that forks the threads of a team."""
    return f"""define void @team(ptr %body, ptr %given, i32 %threads) {{
  %team = alloca [{_BYTES} x i8], align 64
  {_field("arrived", _ARRIVED)}
  {_field("body.at", _BODY)}
  {_field("given.at", _GIVEN)}
  {_field("threads.at", _THREADS)}
  store i64 0, ptr %team, align 64
  store i64 0, ptr %arrived, align 64
  store ptr %body, ptr %body.at, align 8
  store ptr %given, ptr %given.at, align 8
  store i32 %threads, ptr %threads.at, align 8
  call void @parallel(ptr @member, ptr %team, i32 %threads, i32 0)
  ret void
}}"""


# A thread of a team is its master or follows it.
_MEMBER = """define internal void @member(ptr %team) {
entry:
  %number = call i32 @omp_get_thread_num()
  %is = icmp eq i32 %number, 0
  br i1 %is, label %master, label %worker
master:
  call void @lead(ptr %team)
  ret void
worker:
  call void @follow(ptr %team)
  ret void
}"""


def _lead(key: int) -> str:
    """The function of the master, who runs the body, then sends the others home."""
    return f"""define internal void @lead(ptr %team) {{
entry:
  {_field("body.at", _BODY)}
  {_field("given.at", _GIVEN)}
  {_field("workers.at", _WORKERS)}
  {_field("region.at", _REGION)}
  %body = load ptr, ptr %body.at, align 8
  %given = load ptr, ptr %given.at, align 8
  %count = call i32 @omp_get_num_threads()
  %others = sub i32 %count, 1
  %workers = zext i32 %others to i64
  store i64 %workers, ptr %workers.at, align 8
  %alone = icmp eq i32 %others, 0
  br i1 %alone, label %single, label %several
single:
  call void %body(ptr %given)
  ret void
several:
  %set = call i32 @pthread_setspecific(i32 {key}, ptr %team)
  call void %body(ptr %given)
  %unset = call i32 @pthread_setspecific(i32 {key}, ptr null)
  store ptr null, ptr %region.at, align 8
  %before = load i64, ptr %team, align 64
  %last = add i64 %before, 1
  store atomic i64 %last, ptr %team release, align 64
  ret void
}}"""


def _follow() -> str:
    """The function of the others, who run one region after another."""
    return f"""define internal void @follow(ptr %team) {{
entry:
  {_field("region.at", _REGION)}
  {_field("data.at", _DATA)}
  {_field("arrived", _ARRIVED)}
  br label %loop
loop:
  %generation = phi i64 [ 1, %entry ], [ %next, %work ]
  call void @until(ptr %team, i64 %generation)
  %region = load ptr, ptr %region.at, align 8
  %ends = icmp eq ptr %region, null
  br i1 %ends, label %done, label %work
work:
  %data = load ptr, ptr %data.at, align 8
  call void %region(ptr %data)
  %count = atomicrmw add ptr %arrived, i64 1 release
  %next = add i64 %generation, 1
  br label %loop
done:
  ret void
}}"""


def _region(key: int) -> str:
    """The function that hands a region to the team, or forks it where there is no team of its size."""
    return f"""define void @region(ptr %region, ptr %data, i32 %threads, i32 %flags) {{
entry:
  %team = call ptr @pthread_getspecific(i32 {key})
  %none = icmp eq ptr %team, null
  br i1 %none, label %forked, label %look
look:
  {_field("threads.at", _THREADS)}
  %size = load i32, ptr %threads.at, align 8
  %fits = icmp eq i32 %size, %threads
  br i1 %fits, label %shared, label %forked
forked:
  call void @parallel(ptr %region, ptr %data, i32 %threads, i32 %flags)
  ret void
shared:
  {_field("region.at", _REGION)}
  {_field("data.at", _DATA)}
  {_field("arrived", _ARRIVED)}
  {_field("workers.at", _WORKERS)}
  store ptr %region, ptr %region.at, align 8
  store ptr %data, ptr %data.at, align 8
  %before = load i64, ptr %team, align 64
  %generation = add i64 %before, 1
  store atomic i64 %generation, ptr %team release, align 64
  call void %region(ptr %data)
  %workers = load i64, ptr %workers.at, align 8
  %all = mul i64 %generation, %workers
  call void @until(ptr %arrived, i64 %all)
  ret void
}}"""


def _pause() -> str:
    """The instruction by which a thread that spins leaves the core to its neighbour; "" where we know none."""
    return _PAUSE.get(platform.machine().lower(), "")
