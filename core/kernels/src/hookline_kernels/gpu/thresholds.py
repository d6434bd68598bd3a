"""Finds the likelihood below which top-k and top-p drop tokens, without sorting.

Four launches, of which all but the last have a program for each part of a row:

1. the caller finds the largest logit of each part;
2. `_survey_kernel` counts the tokens that reach each of a few fixed levels, and sums
   their weights, so that the levels next to either threshold are known;
3. `_gather_kernel` writes the tokens between those levels into one short list;
4. `_floor_kernel` searches the list for the exact thresholds.
"""

import torch

from hookline_kernels.gpu.candidates import count_and_mass, search
from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.gpu.ordering import (
    LEAST,
    best_of,
    likelihoods,
    load_part,
    number_of,
    ordered,
    peak_of,
)

_LIST_TILE = 1024
"""Candidates taken at a time."""
_LEVELS = tl.constexpr(16)
_LOWEST = tl.constexpr(-1115684865)
"""Order of −64."""
_HALF_OCTAVE = tl.constexpr(4194304)
"""Orders between −64 and −48, −48 and −32, −32 and −24, …"""


def find_floors(  # noqa: PLR0917 - of this package alone
    logits: torch.Tensor,
    keys: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    part_size: int,
) -> torch.Tensor:
    """Returns the `ordered` likelihood that each row's tokens must reach: [R] int32.

    Args:
        logits: [R, vocabulary].
        keys: [R, parts] int64, the largest `key` of each part.
        temperatures: [R] float32, above 0.
        top_k: [R] int64, number of tokens to keep.
        top_p: [R] float32, keeps the most likely of those up to this share; 1 turns
            it off.
        part_size: Tokens of a part, a power of two.
    """
    (rows, vocab_size), (_, parts) = logits.shape, keys.shape
    device = logits.device
    counts = torch.empty(rows, parts, _LEVELS.value, dtype=torch.int32, device=device)
    masses = torch.empty_like(counts, dtype=torch.float64)
    candidates = torch.empty(rows, vocab_size, dtype=torch.int32, device=device)
    floors = torch.empty(rows, dtype=torch.int32, device=device)
    constants = {"size": part_size, "slots": power_of_two(parts), "num_warps": 8}
    row = (logits, *logits.stride(), vocab_size, keys, temperatures)
    survey = (counts, masses, parts)
    filters = (top_k, top_p, candidates)
    _survey_kernel[rows, parts](*row, *survey, **constants)
    _gather_kernel[rows, parts](*row, *survey, *filters, **constants)
    _floor_kernel[rows,](
        *(*survey, temperatures, *filters, vocab_size, floors),
        slots=constants["slots"],
        tile=_LIST_TILE,
        num_warps=8,
    )
    return floors


@kernel
def _levels_of(temperature: tl.tensor) -> tl.tensor:
    """Returns [levels] ascending orders: of all possible tokens, then half octaves.

    They reach from −64 to −0.5 before the division by the temperature. That is taken
    as a power of two, so that the arithmetic is the integers' and the same everywhere.
    """
    exponent = (temperature.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127
    exponent = tl.minimum(tl.maximum(exponent, -10), 10)
    steps = tl.arange(0, _LEVELS)
    orders = (steps + (2 * exponent - 1)) * _HALF_OCTAVE + _LOWEST
    return tl.where(steps == 0, LEAST, orders)


@kernel
def _orders_of_part(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    row_stride: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    keys: tl.tensor,
    temperature: tl.tensor,
    num_parts: tl.tensor,
    size: tl.constexpr,
    slots: tl.constexpr,
) -> tl.tensor:
    """Returns the orders of the likelihoods of this program's part."""
    row, part = tl.program_id(0), tl.program_id(1)
    numbers, _ = load_part(
        logits, row_stride, token_stride, vocab_size, row, part, size
    )
    peak = peak_of(best_of(keys, row, num_parts, slots))
    return ordered(likelihoods(numbers, peak, temperature))


@kernel
def _survey_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    row_stride: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    keys: tl.tensor,
    temperatures: tl.tensor,
    counts: tl.tensor,
    masses: tl.tensor,
    num_parts: tl.tensor,
    size: tl.constexpr,
    slots: tl.constexpr,
) -> None:
    """Counts a part's tokens that reach each level, and sums their weights."""
    row = tl.program_id(0).to(tl.int64)
    temperature = tl.load(temperatures + row)
    orders = _orders_of_part(
        logits,
        row_stride,
        token_stride,
        vocab_size,
        keys,
        temperature,
        num_parts,
        size,
        slots,
    )
    weights = tl.exp(number_of(orders)).to(tl.float64)
    reaches = orders[None, :] >= _levels_of(temperature)[:, None]
    at = (row * num_parts + tl.program_id(1)) * _LEVELS + tl.arange(0, _LEVELS)
    tl.store(counts + at, tl.sum(reaches.to(tl.int32), 1))
    tl.store(masses + at, tl.sum(tl.where(reaches, weights[None, :], 0.0), 1))


@kernel
def _surveyed(
    amounts: tl.tensor, row: tl.tensor, num_parts: tl.tensor, slots: tl.constexpr
) -> tl.tensor:
    """Returns what the survey stored for a row: [slots, levels]."""
    parts = tl.arange(0, slots)[:, None]
    at = (row.to(tl.int64) * num_parts + parts) * _LEVELS
    at += tl.arange(0, _LEVELS)[None, :]
    return tl.load(amounts + at, mask=parts < num_parts, other=0)


@kernel
def _count_brackets(
    counts: tl.tensor, masses: tl.tensor, levels: tl.tensor, top_k: tl.tensor
) -> tl.tensor:
    """Returns the range of orders in which the threshold of top-k lies.

    Args:
        counts: [levels] tokens that reach each level.
        masses: [levels] sums of their weights.
        levels: [levels] ascending orders.
        top_k: Number of tokens to keep.

    Returns:
        The range's first order, the order behind its last (the same if all tokens are
        kept), the number of tokens behind the range, and the mass of those that reach
        its end and its beginning.
    """
    reaches = counts >= top_k
    low = tl.max(tl.where(reaches, levels, LEAST), 0)
    high = tl.min(tl.where(reaches, 1, levels), 0)
    fewer = tl.max(tl.where(reaches, 0, counts), 0)
    lighter = tl.max(tl.where(reaches, 0.0, masses), 0)
    heavier = tl.min(tl.where(reaches, masses, float("inf")), 0)
    keeps_all = tl.max(counts, 0) <= top_k
    total = tl.max(masses, 0)
    return (
        tl.where(keeps_all, LEAST, low),
        tl.where(keeps_all, LEAST, high),
        fewer,
        tl.where(keeps_all, total, lighter),
        tl.where(keeps_all, total, heavier),
    )


@kernel
def _mass_brackets(  # noqa: PLR0917 - a kernel takes no keywords
    masses: tl.tensor,
    levels: tl.tensor,
    top_p: tl.tensor,
    lighter: tl.tensor,
    heavier: tl.tensor,
    otherwise: tl.tensor,
) -> tl.tensor:
    """Returns the range of orders in which the threshold of top-p lies.

    Args:
        masses: [levels] sums of the weights of the tokens that reach each level.
        levels: [levels] ascending orders.
        top_p: Share of the mass to keep.
        lighter: What the mass of top-k is at least.
        heavier: What it is at most.
        otherwise: Beginning and end of the range if top-p is off.

    Returns:
        The range's first order, the order behind its last, and the mass behind it.
    """
    share = top_p.to(tl.float64)
    low = tl.max(tl.where(masses >= share * heavier, levels, LEAST), 0)
    is_behind = masses < share * lighter
    high = tl.min(tl.where(is_behind, levels, 1), 0)
    beyond = tl.max(tl.where(is_behind, masses, 0.0), 0)
    is_on = top_p < 1
    return tl.where(is_on, low, otherwise), tl.where(is_on, high, otherwise), beyond


@kernel
def _candidates_of_parts(  # noqa: PLR0917 - a kernel takes no keywords
    counts: tl.tensor,
    levels: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    mass_low: tl.tensor,
    mass_high: tl.tensor,
) -> tl.tensor:
    """Counts the tokens in the two ranges, which begin and end at levels: [slots]."""
    mass_low = tl.maximum(mass_low, high)
    signs = (levels == low).to(tl.int32) - (levels == high).to(tl.int32)
    signs += (levels == mass_low).to(tl.int32) - (levels == mass_high).to(tl.int32)
    return tl.sum(counts * signs[None, :], 1)


@kernel
def _ranges(  # noqa: PLR0917 - a kernel takes no keywords
    counts: tl.tensor,
    masses: tl.tensor,
    row: tl.tensor,
    num_parts: tl.tensor,
    temperature: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    slots: tl.constexpr,
) -> tl.tensor:
    """Returns what the survey of a row says of both thresholds.

    Returns:
        The range of top-k, the number of tokens behind it and their mass; the range of
        top-p and the mass behind it; and the number of each part's tokens that lie in
        either range: [slots].
    """
    levels = _levels_of(temperature)
    table = _surveyed(counts, row, num_parts, slots)
    all_masses = tl.sum(_surveyed(masses, row, num_parts, slots), 0)
    low, high, fewer, lighter, heavier = _count_brackets(
        tl.sum(table, 0), all_masses, levels, top_k
    )
    mass_low, mass_high, beyond = _mass_brackets(
        all_masses, levels, top_p, lighter, heavier, high
    )
    found = _candidates_of_parts(table, levels, low, high, mass_low, mass_high)
    return low, high, fewer, lighter, mass_low, mass_high, beyond, found


@kernel
def _gather_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    row_stride: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    keys: tl.tensor,
    temperatures: tl.tensor,
    counts: tl.tensor,
    masses: tl.tensor,
    num_parts: tl.tensor,
    top_ks: tl.tensor,
    top_ps: tl.tensor,
    candidates: tl.tensor,
    size: tl.constexpr,
    slots: tl.constexpr,
) -> None:
    """Appends a part's tokens of either range to the row's list, in their order."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    temperature = tl.load(temperatures + row)
    top_k, top_p = tl.load(top_ks + row), tl.load(top_ps + row)
    low, high, _, _, mass_low, mass_high, _, found = _ranges(
        counts, masses, row, num_parts, temperature, top_k, top_p, slots
    )
    parts = tl.arange(0, slots)
    if tl.sum(tl.where(parts == part, found, 0), 0) > 0:
        begin = tl.sum(tl.where(parts < part, found, 0), 0)
        orders = _orders_of_part(
            logits,
            row_stride,
            token_stride,
            vocab_size,
            keys,
            temperature,
            num_parts,
            size,
            slots,
        )
        is_in = (orders >= low) & (orders < high)
        is_in |= (orders >= tl.maximum(mass_low, high)) & (orders < mass_high)
        at = begin + tl.cumsum(is_in.to(tl.int32), 0) - 1
        tl.store(candidates + row * vocab_size + at, orders, mask=is_in)


@kernel
def _floor_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    counts: tl.tensor,
    masses: tl.tensor,
    num_parts: tl.tensor,
    temperatures: tl.tensor,
    top_ks: tl.tensor,
    top_ps: tl.tensor,
    candidates: tl.tensor,
    vocab_size: tl.tensor,
    floors: tl.tensor,
    slots: tl.constexpr,
    tile: tl.constexpr,
) -> None:
    """Finds one row's floor: that of top-k, then that of top-p above it."""
    row = tl.program_id(0).to(tl.int64)
    candidates += row * vocab_size
    top_k, top_p = tl.load(top_ks + row), tl.load(top_ps + row)
    temperature = tl.load(temperatures + row)
    low, high, fewer, kept, mass_low, mass_high, beyond, found = _ranges(
        counts, masses, row, num_parts, temperature, top_k, top_p, slots
    )
    length, floor = tl.sum(found, 0), low
    if low < high:
        floor = search(
            candidates,
            length,
            low,
            high,
            fewer.to(tl.float64),
            top_k.to(tl.float64),
            False,
            tile,
        )
        count, mass = count_and_mass(candidates, length, floor, high, tile)
        # Of ties at the border, only as many count as make top_k.
        surplus = (fewer + count - top_k).to(tl.float64)
        kept += mass - surplus * tl.exp(number_of(floor)).to(tl.float64)
    if top_p < 1:
        floor = search(
            candidates,
            length,
            tl.maximum(floor, mass_low),
            mass_high,
            beyond,
            top_p.to(tl.float64) * kept,
            True,
            tile,
        )
    tl.store(floors + row, floor)
