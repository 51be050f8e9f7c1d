"""PARALLEL loops: a function for the body, run by all threads of a team of the OpenMP runtime (libgomp's GOMP_parallel).

    <region>       void (ptr): what GOMP_parallel calls in each thread; unpacks what it is given
    <region>.body  the loops over this thread's trips

Directly nested PARALLEL loops are collapsed: each of n threads runs T // n or T // n + 1 neighbours of their T trips. The
innermost of them stays a loop of its own, so what depends on the outer ones only is computed once for each of its runs.
"""

from __future__ import annotations

from ....common.errors import InternalError
from ....targets.target import Target
from ....tensor.dtype import i64
from ...ir.facts import Facts, depends
from ...ir.loop_ir import Buffer, For, LoopKind, Scope
from ..index import Index, IndexArithmetic
from ..memory import BufferPointer
from ..module_text import ModuleText
from ..statements import Statements
from ..text import FunctionText

_RUNTIME = {
    "GOMP_parallel": "declare void @GOMP_parallel(ptr, ptr, i32, i32)",
    "omp_get_thread_num": "declare i32 @omp_get_thread_num()",
    "omp_get_num_threads": "declare i32 @omp_get_num_threads()",
}


class RegionStatements(Statements):
    """Statements that may start threads. `region` is a name for functions; `private_bytes` is each thread's scratch memory."""

    def __init__(
        self,
        text: FunctionText,
        module: ModuleText,
        target: Target,
        scratch: str,
        region: str,
        threads: int,
        private_bytes: int,
    ) -> None:
        super().__init__(text, module, target, scratch)
        self.module = module
        self.target = target
        self.region = region
        self.threads = threads
        self.private_bytes = private_bytes
        self.regions = 0
        self.debug = module.debug.of_function(region) if module.debug else None
        text.place = self.debug.start if self.debug else ""
        self.regions_use_unit = False  # whether some region does, and gives it back at its end, in this thread too

    def finish(self) -> None:
        """Ends a function: streaming stores become visible to other threads, a matrix unit is given back."""
        if "matrix" in self.__dict__:
            if self.regions_use_unit:
                raise InternalError("the matrix unit is used inside of a parallel loop and outside of it")
            self.matrix.finish()
        fence = self.target.backend.store_fence
        if self.streaming and fence:
            self.text.line(f"{self.module.intrinsic(fence, 'void')}()")

    @property
    def attribute(self) -> str:
        """Returns what says where this function comes from."""
        return self.debug.attribute if self.debug else ""

    def parallel(self, node: For) -> None:
        """Starts the threads, where there are several and this is not one of them."""
        if self.threads == 1 or self.predicates or self.indices.lanes:
            super().parallel(node)
            return
        loops = collapsed(node)
        extents = [self.at.index(loop.extent) for loop in loops]
        total = _times(self.indices, extents)
        if total.is_constant and total.constant <= 1:
            super().parallel(node)
            return
        self._start(loops, extents)

    def _start(self, loops: list[For], extents: list[Index]) -> None:
        """Packs what the body uses, writes its functions, calls the runtime."""
        self.regions += 1
        symbol = f"{self.region}.region{self.regions}"
        known = self.facts(loops[0])
        buffers = [place for name, place in self.at.places.items() if name in known.buffers]
        for place in buffers:
            if place.buffer.scope is Scope.REGISTER:
                raise InternalError(f"the register buffer {place.buffer.name!r} is used across a parallel loop")
        shared = [p for p in buffers if p.buffer.scope is not Scope.TABLE and not is_private(p.buffer, known)]
        numbers = sorted(self._symbols(known, extents))
        self._write_body(symbol, loops, extents, shared, buffers, numbers)
        self._write_region(symbol, shared, numbers, known)
        slots = [
            *(("ptr", place.base) for place in shared),
            ("ptr", self.scratch),
            *(("i64", name) for name in numbers),
        ]
        data = self.text.alloca(f"[{len(slots)} x i64]", 8)
        for number, (kind, name) in enumerate(slots):
            slot = self.text.pure(f"getelementptr i64, ptr {data}, i64 {number}")
            self.text.line(f"store {kind} {name}, ptr {slot}, align 8")
        self._declare("GOMP_parallel")
        self.text.line(f"call void @GOMP_parallel(ptr @{symbol}, ptr {data}, i32 {self.threads}, i32 0)")
        for name in known.writes:
            self.text.forget(name)

    def _declare(self, name: str) -> None:
        self.module.declarations[name] = _RUNTIME[name]
        self.module.runtime_symbols.add(name)

    def _symbols(self, known: Facts, extents: list[Index]) -> set[str]:
        """Names of this function that the body needs."""
        used: list[Index] = list(extents)
        for name in known.variables:
            binding = self.at.bindings.get(name)
            if binding is not None:
                used += [binding.exact, binding.real]
        return {symbol for index in used for symbol, _ in index.terms}

    def _write_region(self, symbol: str, shared: list[BufferPointer], numbers: list[str], known: Facts) -> None:
        lines, arguments = [], []
        slots = [*(("ptr", place.base) for place in shared), ("ptr", "%all"), *(("i64", name) for name in numbers)]
        for number, (kind, name) in enumerate(slots):
            lines.append(f"  %slot{number} = getelementptr i64, ptr %data, i64 {number}")
            lines.append(f"  {name} = load {kind}, ptr %slot{number}, align 8")
            arguments.append(f"{kind} {name}" if name != "%all" else "ptr %scratch")
        self._declare("omp_get_thread_num")
        self._declare("omp_get_num_threads")
        lines += [
            "  %t32 = call i32 @omp_get_thread_num()",
            "  %n32 = call i32 @omp_get_num_threads()",
            "  %thread = zext i32 %t32 to i64",
            "  %threads = zext i32 %n32 to i64",
            f"  %offset = mul i64 %thread, {self.private_bytes}",
            "  %scratch = getelementptr i8, ptr %all, i64 %offset",
            f"  call void @{symbol}.body({', '.join([*arguments, 'i64 %thread', 'i64 %threads'])})",
        ]
        self.module.functions.append(
            f"define internal void @{symbol}(ptr %data) #0 {{\nentry:\n" + "\n".join(lines) + "\n  ret void\n}"
        )

    def _write_body(
        self,
        symbol: str,
        loops: list[For],
        extents: list[Index],
        shared: list[BufferPointer],
        buffers: list[BufferPointer],
        numbers: list[str],
    ) -> None:
        known = self.facts(loops[0])
        text = FunctionText(self.text.count)
        inner = RegionStatements(text, self.module, self.target, "%scratch", f"{symbol}.body", 1, self.private_bytes)
        inner.at.bindings, inner.at.ranges = dict(self.at.bindings), self.at.ranges
        inner.inside, inner.derived = dict(self.inside), dict(self.derived)
        inner.streaming, inner.known = self.streaming, self.known
        inner.scratch_used, inner.scratch_offsets = self.scratch_used, self.scratch_offsets
        for place in buffers:
            inner.adopt(place, known)
        inner.run_share(loops, extents)
        inner.finish()
        self.regions_use_unit |= inner.regions_use_unit or "matrix" in inner.__dict__
        parameters = [parameter(place.buffer, place.base, known) for place in shared]
        parameters += [
            "ptr noalias align 64 %scratch",
            *(f"i64 {name}" for name in numbers),
            "i64 %thread",
            "i64 %threads",
        ]
        self.module.functions.append(
            f"define internal void @{symbol}.body({', '.join(parameters)}) #0{inner.attribute} {{\n{text.text()}"
            f"\n  ret void{text.place}\n}}"
        )

    # In the function of the body

    def adopt(self, place: BufferPointer, known: Facts) -> None:
        """A buffer that was made around the parallel loop."""
        buffer = place.buffer
        base = place.base
        if is_private(buffer, known):
            stack = buffer.scope is Scope.STACK
            base = self.base(buffer) if stack else self.scratch_pointer(self.scratch_offsets[buffer.name])
        self.at.places[buffer.name] = BufferPointer(buffer, base)

    def run_share(self, loops: list[For], extents: list[Index]) -> None:
        """Loops over the trips of thread %thread of %threads."""
        first, end = self._share(extents)
        if len(loops) == 1:
            self.range(loops[0].var, first, end, loops[0].body)
            return
        inner = self.indices.scalar(extents[-1])
        text = self.text
        head, after, entry = text.name("b"), text.name("b"), text.block
        start, stop = self.indices.scalar(first), self.indices.scalar(end)
        some = text.pure(f"icmp slt i64 {start}, {stop}", start, stop)
        known = self.facts(loops[0])
        top = text.open(f"br i1 {some}, label %{head}, label %{after}", head, writes=known.writes)
        trip = text.reserve()
        row = text.pure(f"sdiv i64 {trip}, {inner}", trip, inner)
        done = text.pure(f"mul i64 {row}, {inner}", row, inner)
        column = text.pure(f"sub i64 {trip}, {done}", trip, done)
        self.indices.natural |= {row, column}
        left = text.pure(f"sub i64 {stop}, {trip}", stop, trip)
        limit = text.pure(f"add i64 {column}, {left}", column, left)
        limit = self.indices.extremum("min", limit, inner)
        self._outer(loops, extents, Index(0, ((row, 1),)), name_index(column), name_index(limit))
        step = text.effect(f"sub i64 {limit}, {column}")
        following = text.effect(f"add i64 {trip}, {step}")
        again = text.effect(f"icmp slt i64 {following}, {stop}")
        text.phi(top, i64, 0, [(start, entry), (following, text.block)], trip)
        text.close(f"br i1 {again}, label %{head}, label %{after}")
        text.start_block(after)

    def _outer(self, loops: list[For], extents: list[Index], row: Index, first: Index, end: Index) -> None:
        """Binds the outer loops to the digits of `row` and runs the innermost one over first .. end - 1."""
        if len(loops) == 1:
            self.range(loops[0].var, first, end, loops[0].body)
            return
        below = _times(self.indices, extents[1:-1])
        if below.is_constant:
            digit = self.indices.divide("floordiv", row, below.constant)
        else:
            a, b = self.indices.scalar(row), self.indices.scalar(below)
            digit = name_index(self.text.pure(f"sdiv i64 {a}, {b}", a, b))
        whole = _times(self.indices, [digit, below])
        rest = self.indices.minus(row, whole)
        self.bind(loops[0].var, digit, None, lambda: self._outer(loops[1:], extents[1:], rest, first, end))

    def _share(self, extents: list[Index]) -> tuple[Index, Index]:
        """This thread's first trip and the end of its trips: T // n each, and one more for the first T % n threads."""
        text = self.text
        total = self.indices.scalar(_times(self.indices, extents))
        size = text.pure(f"sdiv i64 {total}, %threads", total)
        extra = text.pure(f"srem i64 {total}, %threads", total)
        before = self.indices.extremum("min", "%thread", extra)
        start = text.pure(f"mul i64 %thread, {size}", size)
        start = text.pure(f"add i64 {start}, {before}", start, before)
        more = text.pure(f"icmp slt i64 %thread, {extra}", extra)
        one = text.pure(f"zext i1 {more} to i64", more)
        end = text.pure(f"add i64 {start}, {size}", start, size)
        end = text.pure(f"add i64 {end}, {one}", end, one)
        return name_index(start), name_index(end)


def collapsed(node: For) -> list[For]:
    """The directly nested PARALLEL loops that form a rectangle, from the outermost inward."""
    loops = [node]
    while isinstance(loops[-1].body, For) and loops[-1].body.kind is LoopKind.PARALLEL:
        inner = loops[-1].body
        if depends(inner.extent, frozenset(loop.var for loop in loops)):
            break
        loops.append(inner)
    return loops


def is_private(buffer: Buffer, known: Facts) -> bool:
    """Says whether each thread has its own copy of a buffer made around a parallel loop: private memory that the loop's trips
    write. What they only read is that of the thread that started them."""
    return buffer.scope in (Scope.SCRATCH, Scope.STACK) and buffer.name in known.writes


def name_index(name: str) -> Index:
    """An SSA name (or a literal) as an index."""
    return Index(0, ((name, 1),)) if name[0] == "%" else Index(int(name))


def _times(indices: IndexArithmetic, factors: list[Index]) -> Index:
    """The product of indices."""
    total = Index(1)
    for factor in factors:
        if factor.is_constant:
            total = indices.total(((total, factor.constant),))
        elif total.is_constant:
            total = indices.total(((factor, total.constant),))
        else:
            a, b = indices.scalar(total), indices.scalar(factor)
            total = name_index(indices.text.pure(f"mul i64 {a}, {b}", a, b))
    return total


def parameter(buffer: Buffer, name: str, known: Facts) -> str:
    """A buffer as a parameter of a function whose body has these facts."""
    align = 64 if buffer.scope in (Scope.PREPARED, Scope.WORKSPACE) else buffer.dtype.bytes
    access = "" if buffer.name in known.writes else "readonly "
    return f"ptr noalias {access}align {align} dereferenceable({max(1, buffer.bytes)}) {name}"
