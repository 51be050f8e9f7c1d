"""The matrix unit of x86 processors (AMX): tile registers, each of some rows of one line.

The first registers are the accumulators; the others hold operands (targets/matrix_registers.py). The instructions name
registers by constants, so LLVM allocates nothing. A function tells the unit the shape of the tiles once, at its entry, and
gives the unit back at its end: once for each product of panels, that would be 7 to 17% of its time (Sapphire Rapids). All rows
of the table have tiles of the same shape.
"""

from __future__ import annotations

from ....common.errors import InternalError
from ....targets.matrix_instructions import BF16_TILES
from ....targets.matrix_registers import OperandRegisters, products
from ....targets.matrix_unit import tile_configuration
from ....tensor.expr import Read
from ...ir.loop_ir import MatrixClear, MatrixMove, MatrixMultiply
from ..expressions import Expressions

CONFIG = "@tile_shapes"
# name of a row of the table -> LLVM's name of the instruction
_LLVM = {
    "amx_bf16": "tdpbf16ps", "amx_u8_i8": "tdpbusd", "amx_u8_u8": "tdpbuud", "amx_i8_i8": "tdpbssd", "amx_i8_u8": "tdpbsud",
}  # fmt: skip
TILES = BF16_TILES.registers


class MatrixText:
    """Writes Matrix statements into one function."""

    def __init__(self, at: Expressions) -> None:
        self.at = at
        module = at.module
        shapes = ", ".join(f"i8 {value}" for value in tile_configuration(BF16_TILES))
        module.globals[CONFIG] = f"{CONFIG} = internal constant [64 x i8] [{shapes}], align 64"
        load = module.intrinsic("llvm.x86.ldtilecfg", "void", "ptr")
        at.text.entry.append(f"  {load}(ptr {CONFIG})")

    def finish(self) -> None:
        """Ends a function that has used the unit."""
        self.at.text.line(f"{self.at.module.intrinsic('llvm.x86.tilerelease', 'void')}()")

    def emit(self, node: MatrixClear | MatrixMove | MatrixMultiply) -> None:
        """Writes one statement. InternalError: more accumulators than the unit can hold beside two operands."""
        rows, columns, *_ = self.at.place(node.tiles).buffer.shape
        if rows * columns + 2 > TILES:
            raise InternalError(f"{rows} x {columns} accumulators and two operands are more than {TILES} tiles")
        match node:
            case MatrixClear():
                for register in range(rows * columns):
                    call = self.at.module.intrinsic("llvm.x86.tilezero", "void", "i8 immarg")
                    self.at.text.line(f"{call}(i8 {register})")
            case MatrixMove(tile=(row, column), memory=memory, pitch=pitch, stores=stores):
                self._move(row * columns + column, memory, pitch, stores)
            case MatrixMultiply():
                self._multiply(node, columns)

    def _move(self, register: int, memory: Read, pitch: int, stores: bool) -> None:
        place = self.at.place(memory.tensor)
        address = self.at.memory.pointer(place, self.at.locate_exact(memory.indices, place.buffer))
        name = "llvm.x86.tilestored64" if stores else "llvm.x86.tileloadd64"
        call = self.at.module.intrinsic(name, "void", "i8 immarg", "ptr", "i64")
        self.at.text.line(f"{call}(i8 {register}, ptr {address}, i64 {pitch * place.buffer.dtype.bytes})")
        if stores:
            self.at.text.forget(memory.tensor)

    def _multiply(self, node: MatrixMultiply, columns: int) -> None:
        uses = products(len(node.rows), len(node.columns), node.pairs)
        first = self.at.place(node.tiles).buffer.shape[0] * columns
        held = OperandRegisters(range(first, TILES), [operand for use in uses for operand in use])
        call = self.at.module.intrinsic(f"llvm.x86.{_LLVM[node.instruction]}", "void", *["i8 immarg"] * 3)
        for x, y in uses:
            registers = []
            for operand in (x, y):
                register, loads = held.take(operand, keep=(x, y))
                registers.append(register)
                if loads:
                    side, tile, part = operand
                    self._move(register, (node.rows, node.columns)[side][tile][part], node.pitches[side], False)
            accumulator = x[1] * columns + y[1]
            self.at.text.line(f"{call}(i8 {accumulator}, i8 {registers[0]}, i8 {registers[1]})")
