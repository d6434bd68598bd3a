"""Vectors of float32 as LLVM instructions, for kernels that keep sums in registers.

numba's own vectoriser keeps sums in memory. Addresses are plain integers. Numbers are
float32 in registers; in memory 4 bytes are float32, and 2 bytes bfloat16, the upper
half of a float32.
"""

from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from hookline_kernels.cpu.isa import Isa, current_isa, has_float_scaling

Emit = Callable[[Any, ir.IRBuilder, Any, list[ir.Value]], ir.Value]
"""Writes an intrinsic's instructions: (context, builder, signature, arguments)."""

FLOAT = ir.FloatType()
INT16 = ir.IntType(16)
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
_IS_WIDE = current_isa().includes(Isa.AVX512)
LANES = 16 if _IS_WIDE else 8
"""Numbers in a vector; CPUs with narrower registers use several for one."""
_ROUNDS = current_isa().includes(Isa.AVX512_BF16)
MOST_SUMS = 16 if _IS_WIDE else 8
"""Vectors of sums at a time: enough to hide the latency of an addition, and few enough
to leave registers for what is added."""
CACHE_LINE = 64
LOG2_E = 1.4426950408889634

_EXP_LOWEST = -87.0
_EXP_COEFFICIENTS = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)
"""Coefficients of Cephes' expf (Moshier 1984)."""


_POWER_OF_2 = (0.078024536, 0.2260672, 0.6958335, 0.99992526)
"""Coefficients of 2^x, 0 ≤ x < 1; error 8e-5, where bfloat16 has 4e-3."""
_EXACT_POWER_OF_2 = (
    1.87757667e-3,
    8.98934009e-3,
    5.58263181e-2,
    0.240153617,
    0.693153073,
    0.999999925,
)
"""The same with an error of 1.5e-7; both minimise the largest relative one (Remez)."""
_POWER_LIMIT = 200.0
"""Beyond it 2^x is infinite, or zero."""
_FLOOR = 9
"""Mode of `vreduceps`: the fraction above the next lower integer, no exception."""


class BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite has no class for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash(BFloat)


def lanes_for(count: int) -> int:
    """Returns the widest power of two that divides `count`, at most `LANES`."""
    lanes = 1
    while lanes < LANES and count % (2 * lanes) == 0:
        lanes *= 2
    return lanes


def slices(total: int, most: int) -> Iterable[range]:
    """Cuts 0 … total - 1 into ranges of at most `most`."""
    return (range(at, min(at + most, total)) for at in range(0, total, most))


def vector(lanes: int, kind: ir.Type = FLOAT) -> ir.Type:
    return ir.VectorType(kind, lanes)


def constant(value: float, lanes: int, kind: ir.Type = FLOAT) -> ir.Constant:
    return ir.Constant(vector(lanes, kind), [value] * lanes)


def splat(builder: ir.IRBuilder, number: ir.Value, lanes: int) -> ir.Value:
    """Broadcasts a number to a vector."""
    kind = vector(lanes, number.type)
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, number, INT32(0))
    return builder.shuffle_vector(first, nothing, constant(0, lanes, INT32))


def offset(
    builder: ir.IRBuilder, address: ir.Value, index: ir.Value | int, size: int
) -> ir.Value:
    """Returns address + index · size."""
    index = INT64(index) if isinstance(index, int) else index
    return builder.add(address, builder.mul(index, INT64(size)))


def load_number(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.load(builder.inttoptr(address, FLOAT.as_pointer()), align=4)


def load(
    builder: ir.IRBuilder, address: ir.Value, lanes: int, size: int = 4
) -> ir.Value:
    """Loads numbers of 4 or 2 bytes each."""
    if size == 4:
        pointer = builder.inttoptr(address, vector(lanes).as_pointer())
        return builder.load(pointer, align=4)
    pointer = builder.inttoptr(address, vector(lanes, INT16).as_pointer())
    return widened(builder, builder.load(pointer, align=2))


def store(
    builder: ir.IRBuilder, numbers: ir.Value, address: ir.Value, size: int = 4
) -> None:
    """Stores 4 bytes per number, or 2, rounded to nearest, ties to even."""
    if size == 2:
        numbers = rounded(builder, numbers)
    pointer = builder.inttoptr(address, numbers.type.as_pointer())
    builder.store(numbers, pointer, align=size)


def rounded(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    """Rounds to 2 bytes per number, to nearest, ties to even."""
    lanes = numbers.type.count
    if _ROUNDS and lanes == 16:
        halves = builder.fptrunc(numbers, vector(lanes, BFloat()))
        return builder.bitcast(halves, vector(lanes, INT16))
    half = constant(16, lanes, INT32)
    bits = builder.bitcast(numbers, vector(lanes, INT32))
    odd = builder.and_(builder.lshr(bits, half), constant(1, lanes, INT32))
    bits = builder.add(builder.add(bits, odd), constant(0x7FFF, lanes, INT32))
    return builder.trunc(builder.lshr(bits, half), vector(lanes, INT16))


def widened(builder: ir.IRBuilder, halves: ir.Value) -> ir.Value:
    """Converts numbers of `rounded` to 4 bytes each."""
    lanes = halves.type.count
    bits = builder.zext(halves, vector(lanes, INT32))
    bits = builder.shl(bits, constant(16, lanes, INT32))
    return builder.bitcast(bits, vector(lanes))


def prefetch(builder: ir.IRBuilder, address: ir.Value, covered: range) -> None:
    """Prefetches the cache lines of these offsets, which need not be mapped."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, INT32, INT32, INT32])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    for at in covered[::CACHE_LINE]:
        line = builder.inttoptr(builder.add(address, INT64(at)), pointer)
        builder.call(ask, [line, INT32(0), INT32(2), INT32(1)])


def multiply_add(
    builder: ir.IRBuilder, left: ir.Value, right: ir.Value, total: ir.Value
) -> ir.Value:
    """Returns left · right + total, fused where the CPU can."""
    product = builder.fmul(left, right, flags=("contract",))
    return builder.fadd(product, total, flags=("contract",))


def part(builder: ir.IRBuilder, numbers: ir.Value, start: int, lanes: int) -> ir.Value:
    """Returns `lanes` of a vector's numbers."""
    places = ir.Constant(vector(lanes, INT32), list(range(start, start + lanes)))
    return builder.shuffle_vector(numbers, numbers, places)


def joined(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Concatenates two vectors."""
    places = list(range(2 * first.type.count))
    kind = vector(len(places), INT32)
    return builder.shuffle_vector(first, second, ir.Constant(kind, places))


def larger(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def added(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    return builder.fadd(left, right)


def added_at(
    builder: ir.IRBuilder,
    total: ir.Value,
    address: ir.Value,
    index: ir.Value,
    size: int,
) -> ir.Value:
    """Adds the numbers of 4 or 2 bytes at an index, unless the address is 0."""
    place = cgutils.alloca_once_value(builder, total)
    with builder.if_then(builder.icmp_signed("!=", address, INT64(0))):
        at = offset(builder, address, index, size)
        numbers = load(builder, at, total.type.count, size)
        builder.store(added(builder, total, numbers), place)
    return builder.load(place)


def reduce(
    builder: ir.IRBuilder,
    numbers: ir.Value,
    combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value],
) -> ir.Value:
    """Reduces a vector to one number, by halves."""
    lanes = numbers.type.count
    while lanes > 1:
        lanes //= 2
        nothing = ir.Constant(numbers.type, ir.Undefined)
        kind = vector(lanes, INT32)
        low = ir.Constant(kind, list(range(lanes)))
        high = ir.Constant(kind, list(range(lanes, 2 * lanes)))
        numbers = combine(
            builder,
            builder.shuffle_vector(numbers, nothing, low),
            builder.shuffle_vector(numbers, nothing, high),
        )
    return builder.extract_element(numbers, INT32(0))


def exponential(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    """Computes e^x for x ≤ 0; underflows to 0.

    2^n times a polynomial of the rest, |r| ≤ ln 2 ÷ 2; exact but for the last two bits.
    """
    lanes = numbers.type.count

    def number(value: float) -> ir.Constant:
        return constant(value, lanes)

    is_nothing = builder.fcmp_ordered("<", numbers, number(_EXP_LOWEST))
    numbers = builder.select(is_nothing, number(_EXP_LOWEST), numbers)
    rounding = number(1.5 * 2**23)  # what is added to it loses its fraction
    power = builder.fmul(numbers, number(LOG2_E))
    power = builder.fsub(builder.fadd(power, rounding), rounding)
    rest = multiply_add(builder, power, number(-0.693359375), numbers)
    rest = multiply_add(builder, power, number(2.12194440e-4), rest)
    total = number(_EXP_COEFFICIENTS[0])
    for coefficient in _EXP_COEFFICIENTS[1:]:
        total = multiply_add(builder, total, rest, number(coefficient))
    line = builder.fadd(rest, number(1.0))
    total = multiply_add(builder, total, builder.fmul(rest, rest), line)
    exponent = builder.fptosi(power, vector(lanes, INT32))
    exponent = builder.add(exponent, constant(127, lanes, INT32))
    exponent = builder.shl(exponent, constant(23, lanes, INT32))
    scaled = builder.fmul(total, builder.bitcast(exponent, vector(lanes)))
    return builder.select(is_nothing, number(0.0), scaled)


def power_of_2(
    builder: ir.IRBuilder, numbers: ir.Value, *, is_exact: bool = False
) -> ir.Value:
    """Computes 2^x of 16 numbers, error 8e-5, or 1.5e-7 if exact.

    A polynomial of the fraction, scaled by the integer part.
    """
    series_of = _EXACT_POWER_OF_2 if is_exact else _POWER_OF_2
    if not has_float_scaling():
        return _plain_power_of_2(builder, numbers, series_of)
    kind = numbers.type
    rest = _masked(builder, "reduce", [kind, INT32], [numbers, INT32(_FLOOR)])
    series = _power_series(builder, rest, series_of)
    return _masked(builder, "scalef", [kind, kind], [series, numbers])


def _plain_power_of_2(
    builder: ir.IRBuilder, numbers: ir.Value, series_of: tuple[float, ...]
) -> ir.Value:
    """Computes 2^x without AVX-512; scales twice, as 2^x may be a denormal float32."""
    for sign, limit in (("<", -_POWER_LIMIT), (">", _POWER_LIMIT)):
        most = constant(limit, 16)
        is_beyond = builder.fcmp_ordered(sign, numbers, most)
        numbers = builder.select(is_beyond, most, numbers)
    kind, whole_kind = numbers.type, vector(16, INT32)
    shape = ir.FunctionType(kind, [kind])
    floor = cgutils.get_or_insert_function(builder.module, shape, "llvm.floor.v16f32")
    lower = builder.call(floor, [numbers])
    shape = ir.FunctionType(whole_kind, [kind])  # 0 for not-a-numbers
    to_whole = cgutils.get_or_insert_function(
        builder.module, shape, "llvm.fptosi.sat.v16i32.v16f32"
    )
    power = builder.call(to_whole, [lower])
    found = _power_series(builder, builder.fsub(numbers, lower), series_of)
    half = builder.ashr(power, constant(1, 16, INT32))
    for part in (half, builder.sub(power, half)):
        exponent = builder.add(part, constant(127, 16, INT32))
        bits = builder.shl(exponent, constant(23, 16, INT32))
        found = builder.fmul(found, builder.bitcast(bits, kind))
    return found


def _power_series(
    builder: ir.IRBuilder, rest: ir.Value, coefficients: tuple[float, ...]
) -> ir.Value:
    series = constant(coefficients[0], 16)
    for coefficient in coefficients[1:]:
        series = multiply_add(builder, series, rest, constant(coefficient, 16))
    return series


def _masked(
    builder: ir.IRBuilder, name: str, kinds: list[ir.Type], args: list[ir.Value]
) -> ir.Value:
    """Emits an AVX-512 instruction for 16 numbers, in the current rounding mode."""
    kind = vector(16)
    shape = ir.FunctionType(kind, [*kinds, kind, INT16, INT32])
    call = cgutils.get_or_insert_function(
        builder.module, shape, f"llvm.x86.avx512.mask.{name}.ps.512"
    )
    nothing = ir.Constant(kind, ir.Undefined)
    return builder.call(call, [*args, nothing, INT16(-1), INT32(4)])
