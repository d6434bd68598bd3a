"""Dot products of bytes: four codes of a weight with four of a row, to a 32-bit sum.

VNNI has one instruction for that, which takes unsigned bytes and signed ones; weights
become unsigned for it, and `zero_of` says what is to be subtracted. Without VNNI, pairs
are added in 16 bits first. None of these sums saturates: a row's codes are -127 … 127.
"""

from llvmlite import ir
from numba.core import cgutils

from hookline_kernels.cpu.bfloat_pairs import load_words
from hookline_kernels.cpu.isa import Isa, current_isa, has_byte_dots
from hookline_kernels.cpu.vectors import INT16, INT32, INT64, LANES, constant, vector
from hookline_kernels.quantized_weight import OUTPUTS

_INT8 = ir.IntType(8)
_IS_X86 = current_isa().includes(Isa.AVX2)
_IS_WIDE = LANES == 16
_WORDS = vector(LANES, INT32)
_BYTES = vector(4 * LANES, _INT8)
_HALVES = vector(2 * LANES, INT16)


def zero_of(bits: int) -> int:
    """Returns what `code_quads` adds to each code, so that codes are unsigned."""
    if bits == 4:
        return 8
    return 128 if has_byte_dots() else 0


def code_quads(
    builder: ir.IRBuilder, unit: ir.Value, first: int, bits: int
) -> list[ir.Value]:
    """Loads both quads of a unit's inputs, of `LANES` outputs.

    Args:
        builder: Emits the instructions.
        unit: Address of the codes of 8 inputs of a panel.
        first: First of the outputs.
        bits: Bits of a code.
    """

    def load(at: int) -> ir.Value:
        return load_words(builder, builder.add(unit, INT64(at)), LANES)

    if bits == 8:
        quads = [load(4 * (quad * OUTPUTS + first)) for quad in range(2)]
        if not zero_of(bits):
            return quads
        flip = constant(0x80808080, LANES, INT32)
        return [builder.xor(each, flip) for each in quads]
    words = builder.xor(load(4 * first), constant(0x88888888, LANES, INT32))
    low = constant(0x0F0F0F0F, LANES, INT32)
    upper = builder.lshr(words, constant(4, LANES, INT32))
    return [builder.and_(each, low) for each in (words, upper)]


class Dots:
    """Products of one quad of codes with rows."""

    def __init__(self, builder: ir.IRBuilder, codes: ir.Value, bits: int) -> None:
        """Takes codes of `code_quads`."""
        self._builder, self._codes = builder, codes
        self._has_signs = _IS_X86 and not zero_of(bits)
        self._is_signed = not zero_of(bits)
        if self._has_signs:
            self._signed = builder.bitcast(codes, _BYTES)
            kinds = [_BYTES, ir.IntType(1)]
            name = f"llvm.abs.v{4 * LANES}i8"
            size = self._call(name, _BYTES, kinds, [self._signed, kinds[1](0)])
            self._codes = builder.bitcast(size, _WORDS)

    def add(self, row: ir.Value, total: ir.Value) -> ir.Value:
        """Adds the products with a row's quad, which is in all lanes, to the total."""
        if has_byte_dots():
            name = f"llvm.x86.avx512.vpdpbusd.{32 * LANES}"
            kinds = [_WORDS] * 3
            return self._call(name, _WORDS, kinds, [total, self._codes, row])
        if not _IS_X86:
            return self._plainly(row, total)
        if self._has_signs:
            row = self._with_signs(row)
        builder = self._builder
        sides = [builder.bitcast(each, _BYTES) for each in (self._codes, row)]
        name = "512.pmaddubs.w.512" if _IS_WIDE else "2.pmadd.ub.sw"
        pairs = self._call(f"llvm.x86.avx{name}", _HALVES, [_BYTES] * 2, sides)
        ones = constant(1, 2 * LANES, INT16)
        name = "512.pmaddw.d.512" if _IS_WIDE else "2.pmadd.wd"
        quads = self._call(f"llvm.x86.avx{name}", _WORDS, [_HALVES] * 2, [pairs, ones])
        return builder.add(total, quads)

    def _with_signs(self, row: ir.Value) -> ir.Value:
        """Gives a row the signs of the codes, whose sizes it is multiplied with."""
        builder = self._builder
        numbers = builder.bitcast(row, _BYTES)
        if not _IS_WIDE:
            name = "llvm.x86.avx2.psign.b"
            return self._call(name, _BYTES, [_BYTES] * 2, [numbers, self._signed])
        nothing = ir.Constant(_BYTES, [0] * _BYTES.count)
        is_negative = builder.icmp_signed("<", self._signed, nothing)
        return builder.select(is_negative, builder.sub(nothing, numbers), numbers)

    def _plainly(self, row: ir.Value, total: ir.Value) -> ir.Value:
        """Multiplies byte by byte, in 32 bits."""
        builder = self._builder
        least = constant(24, LANES, INT32)
        for byte in range(4):
            left, right = (
                builder.shl(each, constant(24 - 8 * byte, LANES, INT32))
                for each in (self._codes, row)
            )
            shift = builder.ashr if self._is_signed else builder.lshr
            product = builder.mul(shift(left, least), builder.ashr(right, least))
            total = builder.add(total, product)
        return total

    def _call(
        self, name: str, kind: ir.Type, kinds: list[ir.Type], args: list[ir.Value]
    ) -> ir.Value:
        shape = ir.FunctionType(kind, kinds)
        call = cgutils.get_or_insert_function(self._builder.module, shape, name)
        return self._builder.call(call, args)
