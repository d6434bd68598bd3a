"""Operations on one head of one token, as intrinsics for numba.

A head is a row of numbers of 4 or 2 bytes each at an address. Numbers that shape the
code are literals in the signature.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.vectors import (
    Emit,
    lanes_for,
    load,
    multiply_add,
    offset,
    prefetch,
    store,
)


def _rotate_head(
    _: object, head: Any, cosines: Any, sines: Any, half: Any, size: Any
) -> tuple[Signature, Emit]:
    """Rotates the pairs (d, half + d) of a head in place; rounds each result once.

    cosines, sines: float32 [half].
    """
    signature = types.void(head, cosines, sines, half, size)
    count, element = half.literal_value, size.literal_value
    lanes = lanes_for(count)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        for at in range(0, count, lanes):
            places = [
                offset(builder, args[0], at + side, element) for side in (0, count)
            ]
            first, second = (load(builder, place, lanes, element) for place in places)
            cosine, sine = (
                load(builder, offset(builder, angle, at, 4), lanes)
                for angle in args[1:3]
            )
            product = builder.fmul(second, sine)
            turned = multiply_add(builder, first, cosine, builder.fneg(product))
            store(builder, turned, places[0], element)
            product = builder.fmul(first, sine)
            turned = multiply_add(builder, second, cosine, product)
            store(builder, turned, places[1], element)
        return context.get_dummy_value()

    return signature, emit


def _prefetch_bytes(_: object, place: Any, count: Any) -> tuple[Signature, Emit]:
    """Prefetches `count` bytes at an address."""
    size = count.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        prefetch(builder, args[0], range(size))
        return context.get_dummy_value()

    return types.void(place, count), emit


prefetch_bytes: Any = intrinsic(prefer_literal=True)(_prefetch_bytes)
rotate_head: Any = intrinsic(prefer_literal=True)(_rotate_head)
