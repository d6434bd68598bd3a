"""The CPU's matrix unit (AMX), for intrinsics of numba.

It has eight tiles of 16 rows of 64 bytes each. `tdpbf16ps` adds to a tile of float32
sums the product of a tile of rows, 32 bfloat16 numbers each, with a tile of 16 rows of
pairs: the pair (2 k, 2 k + 1) of 16 columns. `tdpbssd` does the same with signed bytes,
32-bit sums and quads. oneDNN caches a thread's tile
configuration, so any other configuration is set between `configure_tiles` and
`restore_tiles`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from llvmlite import ir
from numba.core import cgutils

from hookline_kernels.cpu.isa import emulates_tiles, has_matrix_unit
from hookline_kernels.cpu.tile_emulation import tile_emulator
from hookline_kernels.cpu.vectors import INT64

ROWS = 16
"""Rows of a tile; also float32 numbers in each row."""
DEPTH = 32
"""bfloat16 numbers in each row of a tile."""
HEIGHT = 2 * ROWS
"""Rows of a block, which are multiplied together."""
BLOCK_BYTES = HEIGHT * DEPTH * 2
"""Bytes of 32 inputs of a block of rows in bfloat16."""
INT8 = ir.IntType(8)


def has_tiles() -> bool:
    """Whether kernels may use tiles, of the matrix unit or emulated ones."""
    return has_matrix_unit() or emulates_tiles()


def configure_tiles(
    builder: ir.IRBuilder,
    heights: Mapping[int, ir.Value],
    row_bytes: Mapping[int, int] = MappingProxyType({}),
) -> ir.Value:
    """Configures tiles; returns the state for `restore_tiles`.

    Args:
        builder: Emits the instructions.
        heights: Rows of each tile.
        row_bytes: Bytes of each row of those that have fewer than 64.
    """
    before = own_bytes(builder, 64)
    tile(builder, "sttilecfg", before)
    config = own_bytes(builder, 64)
    words = builder.bitcast(config, INT64.as_pointer())
    for index in range(8):
        builder.store(INT64(0), builder.gep(words, [INT64(index)]))
    builder.store(INT8(1), config)
    for each, height in heights.items():
        width = INT8(row_bytes.get(each, 64))
        builder.store(width, builder.gep(config, [INT64(16 + 2 * each)]))
        builder.store(height, builder.gep(config, [INT64(48 + each)]))
    tile(builder, "ldtilecfg", config)
    return before


def restore_tiles(builder: ir.IRBuilder, before: ir.Value) -> None:
    """Restores the configuration of the tiles; their contents are lost."""
    tile(builder, "ldtilecfg", before)


def load_tile(
    builder: ir.IRBuilder,
    which: int,
    address: ir.Value,
    stride: ir.Value | int,
    *,
    passes_by: bool = False,
) -> None:
    """Loads rows that are `stride` bytes apart.

    With `passes_by`, the load does not evict other data from the L1 cache.
    """
    name = "tileloaddt164" if passes_by else "tileloadd64"
    _move_tile(builder, name, which, address, stride)


def store_tile(
    builder: ir.IRBuilder, which: int, address: ir.Value, stride: ir.Value | int
) -> None:
    _move_tile(builder, "tilestored64", which, address, stride)


def _move_tile(
    builder: ir.IRBuilder,
    instruction: str,
    which: int,
    address: ir.Value,
    stride: ir.Value | int,
) -> None:
    stride = INT64(stride) if isinstance(stride, int) else stride
    pointer = builder.inttoptr(address, INT8.as_pointer())
    tile(builder, instruction, INT8(which), pointer, stride)


def clear_tile(builder: ir.IRBuilder, which: int) -> None:
    tile(builder, "tilezero", INT8(which))


def multiply_tiles(builder: ir.IRBuilder, sums: int, rows: int, pairs: int) -> None:
    """Computes sums += rows · pairs."""
    tile(builder, "tdpbf16ps", INT8(sums), INT8(rows), INT8(pairs))


def multiply_byte_tiles(
    builder: ir.IRBuilder, sums: int, rows: int, quads: int
) -> None:
    """Computes sums += rows · quads, of signed bytes and 32-bit sums."""
    tile(builder, "tdpbssd", INT8(sums), INT8(rows), INT8(quads))


def tile(builder: ir.IRBuilder, name: str, *args: ir.Value) -> None:
    """Emits one instruction, or a call that emulates it."""
    if emulates_tiles():
        tile_emulator().emulate(builder, name, args)
        return
    shape = ir.FunctionType(ir.VoidType(), [each.type for each in args])
    call = cgutils.get_or_insert_function(builder.module, shape, f"llvm.x86.{name}")
    builder.call(call, args)


def own_bytes(builder: ir.IRBuilder, count: int) -> ir.Value:
    """Allocates bytes on the stack, aligned to a cache line."""
    place = cgutils.alloca_once(builder, INT8, size=INT64(count))
    place.align = 64
    return place
