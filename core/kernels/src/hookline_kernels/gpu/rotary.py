"""Rotary position embedding (Su et al. 2021) in place, with or without the cache.

Heads may be normed first, in the same launch.
"""

import torch

from hookline_kernels.gpu.cache import place_of
from hookline_kernels.gpu.chaining import chained, follow, lead
from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.gpu.launching import launch
from hookline_kernels.head_shape import HeadNorms


def rotate(
    query: torch.Tensor, key: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
) -> None:
    """Rotates T tokens' queries and keys in place.

    The first half of a head's rotated numbers pairs with the second. Each product and
    each sum is rounded to the dtype, as in `transformers`. Numbers behind the rotated
    ones stay as they are.

    Args:
        query: [T, heads, head dim], each head contiguous.
        key: [T, KV heads, head dim], likewise.
        cosines: [T, rotated] of the same dtype, contiguous; `rotated` is even.
        sines: Likewise.

    Raises:
        ValueError: A head is not contiguous.
    """
    _launch(query, key, cosines, sines)


def rotate_and_write(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cosines: torch.Tensor,
    sines: torch.Tensor,
    *,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    norms: HeadNorms | None = None,
) -> None:
    """Norms, rotates and writes to the cache, in one launch that reads all once.

    Args:
        query: See `rotate`.
        key: See `rotate`; whole heads are rotated.
        value: [T, KV heads, value dim], each head contiguous.
        cosines: See `rotate`.
        sines: See `rotate`.
        keys: [blocks, block size, KV heads, head dim], any strides; written.
        values: [blocks, block size, KV heads, value dim], likewise.
        slots: [T] integers; tokens with a negative slot are rotated, but not written.
        norms: RMSNorms of queries and keys, which round as `rms_norm`; None without.

    Raises:
        ValueError: A head is not contiguous, or not rotated as a whole.
    """
    if cosines.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"heads of {key.shape[-1]} numbers of which {cosines.shape[-1]} are turned "
            "cannot be written at once: call rotate and write_cache"
        )
    _launch(query, key, cosines, sines, value, keys, values, slots, norms)


def _launch(  # noqa: PLR0917 - of this file's functions alone
    query: torch.Tensor,
    key: torch.Tensor,
    cosines: torch.Tensor,
    sines: torch.Tensor,
    value: torch.Tensor | None = None,
    keys: torch.Tensor | None = None,
    values: torch.Tensor | None = None,
    slots: torch.Tensor | None = None,
    norms: HeadNorms | None = None,
) -> None:
    if not len(query):
        return
    for rows in (query, key, *(() if value is None else (value,))):
        if rows.stride(-1) != 1:
            raise ValueError("the numbers of a head must follow one another in memory")
    cache_strides: tuple[int, ...] = (0,) * 10
    value_width = 1
    if value is not None and keys is not None and values is not None:
        cache_strides = (*value.stride()[:2], *keys.stride(), *values.stride())
        value_width = value.shape[-1]
    turned = cosines.shape[-1]
    launch(
        _rotate_kernel,
        (len(query),),
        *(query, *query.stride()[:2], key, *key.stride()[:2]),
        *(cosines.contiguous(), sines.contiguous()),
        *(
            (None, None, 0.0)
            if norms is None
            else (norms.query, norms.key, norms.epsilon)
        ),
        *(value, keys, values, slots, *cache_strides),
        normed=norms is not None,
        writes=slots is not None,
        heads=query.shape[1],
        heads_pad=power_of_two(query.shape[1]),
        kv_heads=key.shape[1],
        kv_heads_pad=power_of_two(key.shape[1]),
        half=turned // 2,
        half_pad=power_of_two(turned // 2),
        value_width=value_width,
        value_pad=power_of_two(value_width),
        block_size=1 if keys is None else keys.shape[1],
        num_warps=4,
        enable_fp_fusion=False,  # each product is rounded
        **chained(query.device),
    )


@kernel
def _scaled(
    numbers: tl.tensor,
    scale: tl.tensor,
    weight: tl.tensor,
    dims: tl.tensor,
    is_dim: tl.tensor,
) -> tl.tensor:
    """Returns numbers · scale · weight as float32, each product rounded."""
    dtype: tl.constexpr = weight.dtype.element_ty
    factors = tl.load(weight + dims, mask=is_dim, other=0.0).to(tl.float32)[None, :]
    rounded = (numbers * scale).to(dtype).to(tl.float32)
    return (rounded * factors).to(dtype).to(tl.float32)


@kernel
def _turn(  # noqa: PLR0917 - a kernel takes no keywords
    values: tl.tensor,
    at: tl.tensor,
    mask: tl.tensor,
    cosines: tl.tensor,
    sines: tl.tensor,
    norm: tl.tensor,
    epsilon: tl.tensor,
    normed: tl.constexpr,
    half: tl.constexpr,
) -> tl.tensor:
    """Norms, rotates and stores both halves of some heads, rounding as torch does.

    Args:
        values: Queries or keys.
        at: [heads, half] offsets of the first halves.
        mask: [heads, half] which of them exist.
        cosines: The token's cosines, one for each rotated number of a head.
        sines: Likewise.
        norm: Weight of the norm, if `normed`.
        epsilon: Added to the mean square.
        normed: Whether the heads are normed.
        half: Half the number of rotated numbers.
    """
    dtype: tl.constexpr = values.dtype.element_ty
    dims = tl.arange(0, at.shape[1])
    is_dim = dims < half
    first = tl.load(values + at, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(values + half + at, mask=mask, other=0.0).to(tl.float32)
    if normed:
        squares = tl.sum(first * first, 1) + tl.sum(second * second, 1)
        scale = tl.rsqrt(squares / (2 * half) + epsilon)[:, None]
        first = _scaled(first, scale, norm, dims, is_dim)
        second = _scaled(second, scale, norm + half, dims, is_dim)
    cosine = tl.load(cosines + dims, mask=is_dim, other=0.0).to(tl.float32)[None, :]
    sine = tl.load(sines + dims, mask=is_dim, other=0.0).to(tl.float32)[None, :]
    kept = (first * cosine).to(dtype).to(tl.float32)
    new_first = (kept + (-second * sine).to(dtype).to(tl.float32)).to(dtype)
    dims += half
    is_dim = dims < 2 * half
    cosine = tl.load(cosines + dims, mask=is_dim, other=0.0).to(tl.float32)[None, :]
    sine = tl.load(sines + dims, mask=is_dim, other=0.0).to(tl.float32)[None, :]
    kept = (second * cosine).to(dtype).to(tl.float32)
    new_second = (kept + (first * sine).to(dtype).to(tl.float32)).to(dtype)
    tl.debug_barrier()  # all threads that hold the same numbers have read them
    tl.store(values + at, new_first, mask=mask)
    tl.store(values + half + at, new_second, mask=mask)
    return new_first, new_second


@kernel
def _rotate_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    query: tl.tensor,
    query_token: tl.tensor,
    query_head: tl.tensor,
    key: tl.tensor,
    from_key_token: tl.tensor,
    from_key_head: tl.tensor,
    cosines: tl.tensor,
    sines: tl.tensor,
    query_norm: tl.tensor,
    key_norm: tl.tensor,
    epsilon: tl.tensor,
    value: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    slots: tl.tensor,
    from_value_token: tl.tensor,
    from_value_head: tl.tensor,
    key_block: tl.tensor,
    key_token: tl.tensor,
    key_head: tl.tensor,
    key_dim: tl.tensor,
    value_block: tl.tensor,
    value_token: tl.tensor,
    value_head: tl.tensor,
    value_dim: tl.tensor,
    normed: tl.constexpr,
    writes: tl.constexpr,
    heads: tl.constexpr,
    heads_pad: tl.constexpr,
    kv_heads: tl.constexpr,
    kv_heads_pad: tl.constexpr,
    half: tl.constexpr,
    half_pad: tl.constexpr,
    value_width: tl.constexpr,
    value_pad: tl.constexpr,
    block_size: tl.constexpr,
    chains: tl.constexpr = False,
) -> None:
    """Computes all heads of one token."""
    lead(chains)
    follow(chains)
    token = tl.program_id(0).to(tl.int64)
    cosines += token * 2 * half
    sines += token * 2 * half
    dims = tl.arange(0, half_pad)
    is_dim = (dims < half)[None, :]
    head = tl.arange(0, heads_pad)
    at = token * query_token + head[:, None] * query_head + dims[None, :]
    mask = (head < heads)[:, None] & is_dim
    _turn(query, at, mask, cosines, sines, query_norm, epsilon, normed, half)
    head = tl.arange(0, kv_heads_pad)
    at = token * from_key_token + head[:, None] * from_key_head + dims[None, :]
    mask = (head < kv_heads)[:, None] & is_dim
    first, second = _turn(
        key, at, mask, cosines, sines, key_norm, epsilon, normed, half
    )
    if writes:
        slot = tl.load(slots + token).to(tl.int64)
        if slot < 0:
            return
        place = place_of(slot, key_block, key_token, key_head, head, block_size)
        at = place[:, None] + dims[None, :] * key_dim
        tl.store(keys + at, first, mask=mask)
        tl.store(keys + at + half * key_dim, second, mask=mask)
        dims = tl.arange(0, value_pad)
        mask = (head < kv_heads)[:, None] & (dims < value_width)[None, :]
        at = token * from_value_token + head[:, None] * from_value_head + dims[None, :]
        place = place_of(slot, value_block, value_token, value_head, head, block_size)
        tl.store(
            values + place[:, None] + dims[None, :] * value_dim,
            tl.load(value + at, mask=mask),
            mask=mask,
        )
