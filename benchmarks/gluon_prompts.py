"""Attention of wholly new prompts in Gluon: one warp fetches, two warpgroups compute."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

DTYPES = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}
if hasattr(tma, "async_load"):
    fetch = tma.async_load
else:
    fetch = tma.async_copy_global_to_shared


@gluon.constexpr_function
def product_layout(columns):
    """The layout of a product of four warps."""
    return gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, columns, 16]
    )


@gluon.jit
def _fetching(
    k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
    start, first, border, count, column, query, query_token, query_head,
    output, output_token, output_head, inner, kv_head,
    group: gl.constexpr, step: gl.constexpr, stages: gl.constexpr,
    half: gl.constexpr, width: gl.constexpr,
):
    steps = border // step + 1
    for i in range(steps):
        at = i % stages
        phase = (i // stages) & 1
        row = start + i * step
        mbarrier.wait(k_free.index(at), phase ^ 1)
        mbarrier.expect(k_ready.index(at), step * width * 2)
        fetch(k_desc, [row, column], k_ready.index(at), k_bufs.index(at))
        mbarrier.wait(v_free.index(at), phase ^ 1)
        mbarrier.expect(v_ready.index(at), step * width * 2)
        fetch(v_desc, [row, column], v_ready.index(at), v_bufs.index(at))


@gluon.jit
def _computing(
    k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
    start, first, border, count, column, query, query_token, query_head,
    output, output_token, output_head, inner, kv_head,
    group: gl.constexpr, step: gl.constexpr, stages: gl.constexpr,
    half: gl.constexpr, width: gl.constexpr,
):
    s_layout: gl.constexpr = product_layout(step)
    o_layout: gl.constexpr = product_layout(width)
    p_layout: gl.constexpr = gl.DotOperandLayout(
        operand_index=0, parent=o_layout, k_width=2
    )
    line: gl.constexpr = gl.SliceLayout(1, s_layout)
    dtype: gl.constexpr = k_desc.dtype
    rows: gl.constexpr = 64
    row = half * rows + gl.arange(0, rows, layout=line)
    tokens = first + row // group
    # This half's queries go to shared memory once.
    load_layout: gl.constexpr = gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0])
    qrow = half * rows + gl.arange(0, rows, layout=gl.SliceLayout(1, load_layout))
    qtoken = first + qrow // group
    qhead = kv_head * group + qrow % group
    dims = gl.arange(0, width, layout=gl.SliceLayout(0, load_layout))
    at_query = (start + qtoken).to(gl.int64) * query_token + qhead * query_head
    queries = gl.load(
        query + at_query[:, None] + dims[None, :],
        mask=(qtoken < count)[:, None],
        other=0.0,
    )
    q = q_buf.index(half)
    q.store(queries)
    fence_async_shared()

    zero = gl.zeros([rows, step], gl.float32, s_layout)
    sums = gl.zeros([rows, width], gl.float32, o_layout)
    largest = gl.full([rows], float("-inf"), gl.float32, line)
    total = gl.zeros([rows], gl.float32, line)
    mbarrier.wait(k_ready.index(0), 0)
    scores = warpgroup_mma(
        q, k_bufs.index(0).permute((1, 0)), zero, use_acc=False, is_async=True
    )
    scores = warpgroup_mma_wait(0, deps=(scores,))
    mbarrier.arrive(k_free.index(0), count=1)
    steps = border // step
    for i in range(steps):
        at = i % stages
        after = (i + 1) % stages
        mbarrier.wait(k_ready.index(after), ((i + 1) // stages) & 1)
        ahead = warpgroup_mma(
            q, k_bufs.index(after).permute((1, 0)), zero, use_acc=False, is_async=True
        )
        peak = gl.maximum(largest, gl.max(scores, 1) * inner)
        weights = gl.exp2(scores * inner - peak[:, None])
        kept = gl.exp2(largest - peak)
        total = total * kept + gl.sum(weights, 1)
        largest = peak
        sums = sums * gl.convert_layout(kept, gl.SliceLayout(1, o_layout))[:, None]
        p = gl.convert_layout(weights.to(dtype), p_layout)
        mbarrier.wait(v_ready.index(at), (i // stages) & 1)
        sums = warpgroup_mma(p, v_bufs.index(at), sums, is_async=True)
        scores, sums = warpgroup_mma_wait(0, deps=(ahead, sums))
        mbarrier.arrive(k_free.index(after), count=1)
        mbarrier.arrive(v_free.index(at), count=1)
    # The tile on the diagonal.
    new = border + gl.arange(0, step, layout=gl.SliceLayout(0, s_layout))
    scores = gl.where(
        new[None, :] <= tokens[:, None], scores * inner, float("-inf")
    )
    peak = gl.maximum(largest, gl.max(scores, 1))
    weights = gl.exp2(scores - peak[:, None])
    kept = gl.exp2(largest - peak)
    total = total * kept + gl.sum(weights, 1)
    sums = sums * gl.convert_layout(kept, gl.SliceLayout(1, o_layout))[:, None]
    p = gl.convert_layout(weights.to(dtype), p_layout)
    at = steps % stages
    mbarrier.wait(v_ready.index(at), (steps // stages) & 1)
    sums = warpgroup_mma(p, v_bufs.index(at), sums, is_async=True)
    sums = warpgroup_mma_wait(0, deps=(sums,))
    mbarrier.arrive(v_free.index(at), count=1)
    found = sums / gl.convert_layout(total, gl.SliceLayout(1, o_layout))[:, None]
    orow = half * rows + gl.arange(0, rows, layout=gl.SliceLayout(1, o_layout))
    otoken = first + orow // group
    ohead = kv_head * group + orow % group
    odims = gl.arange(0, width, layout=gl.SliceLayout(0, o_layout))
    at_output = (start + otoken).to(gl.int64) * output_token + ohead * output_head
    gl.store(
        output + at_output[:, None] + odims[None, :],
        found.to(dtype),
        mask=(otoken < count)[:, None],
    )


@gluon.jit
def _first_half(
    k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
    start, first, border, count, column, query, query_token, query_head,
    output, output_token, output_head, inner, kv_head,
    group: gl.constexpr, step: gl.constexpr, stages: gl.constexpr,
    width: gl.constexpr,
):
    _computing(
        k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
        start, first, border, count, column, query, query_token, query_head,
        output, output_token, output_head, inner, kv_head,
        group, step, stages, 0, width,
    )


@gluon.jit
def _second_half(
    k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
    start, first, border, count, column, query, query_token, query_head,
    output, output_token, output_head, inner, kv_head,
    group: gl.constexpr, step: gl.constexpr, stages: gl.constexpr,
    width: gl.constexpr,
):
    _computing(
        k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
        start, first, border, count, column, query, query_token, query_head,
        output, output_token, output_head, inner, kv_head,
        group, step, stages, 1, width,
    )


@gluon.jit
def _producer(
    k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
    start, first, border, count, column, query, query_token, query_head,
    output, output_token, output_head, inner, kv_head,
    group: gl.constexpr, step: gl.constexpr, stages: gl.constexpr,
    width: gl.constexpr,
):
    _fetching(
        k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
        start, first, border, count, column, query, query_token, query_head,
        output, output_token, output_head, inner, kv_head,
        group, step, stages, 0, width,
    )


@gluon.jit
def gluon_kernel(
    query, query_token, query_head, k_desc, v_desc, starts,
    output, output_token, output_head, inner,
    group: gl.constexpr, step: gl.constexpr, stages: gl.constexpr,
    width: gl.constexpr,
):
    rows: gl.constexpr = 128
    tile_tokens: gl.constexpr = rows // group
    gl.static_assert(step % tile_tokens == 0)
    kv_head = gl.program_id(0)
    request = gl.program_id(1)
    start = gl.load(starts + request)
    count = gl.load(starts + request + 1) - start
    first = (gl.num_programs(2) - 1 - gl.program_id(2)) * tile_tokens
    if first < count:
        border = first // step * step
        column = kv_head * width
        dtype: gl.constexpr = k_desc.dtype
        bar: gl.constexpr = mbarrier.MBarrierLayout()
        k_bufs = gl.allocate_shared_memory(
            dtype, [stages, step, width], k_desc.layout
        )
        v_bufs = gl.allocate_shared_memory(
            dtype, [stages, step, width], v_desc.layout
        )
        q_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for(
            [64, width], dtype
        )
        q_buf = gl.allocate_shared_memory(dtype, [2, 64, width], q_layout)
        k_ready = gl.allocate_shared_memory(gl.int64, [stages, 1], bar)
        v_ready = gl.allocate_shared_memory(gl.int64, [stages, 1], bar)
        k_free = gl.allocate_shared_memory(gl.int64, [stages, 1], bar)
        v_free = gl.allocate_shared_memory(gl.int64, [stages, 1], bar)
        for i in gl.static_range(stages):
            mbarrier.init(k_ready.index(i), count=1)
            mbarrier.init(v_ready.index(i), count=1)
            mbarrier.init(k_free.index(i), count=2)
            mbarrier.init(v_free.index(i), count=2)
        fence_async_shared()
        gl.warp_specialize(
            [
                (_first_half, (
                    k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
                    start, first, border, count, column, query, query_token, query_head,
                    output, output_token, output_head, inner, kv_head,
                    group, step, stages, width,
                        )),
                (_second_half, (
                    k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
                    start, first, border, count, column, query, query_token, query_head,
                    output, output_token, output_head, inner, kv_head,
                    group, step, stages, width,
                        )),
                (_producer, (
                    k_desc, v_desc, k_bufs, v_bufs, k_ready, v_ready, k_free, v_free, q_buf,
                    start, first, border, count, column, query, query_token, query_head,
                    output, output_token, output_head, inner, kv_head,
                    group, step, stages, width,
                        )),
            ],
            [4, 1],
            [240, 24],
        )


def descriptor(rows: torch.Tensor, step: int) -> TensorDescriptor:
    tokens, heads, width = rows.shape
    layout = gl.NVMMASharedLayout.get_default_for([step, width], DTYPES[rows.dtype])
    return TensorDescriptor(
        rows, [tokens, heads * width], [rows.stride(0), 1], [step, width], layout
    )


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    starts: torch.Tensor,
    longest: int,
    scale: float,
    output: torch.Tensor,
    *,
    step: int = 128,
    stages: int = 2,
) -> None:
    heads, width = query.shape[1:]
    kv_heads = key.shape[1]
    group = heads // kv_heads
    gluon_kernel[(kv_heads, len(starts) - 1, -(-longest // (128 // group)))](
        query,
        query.stride(0),
        query.stride(1),
        descriptor(key, step),
        descriptor(value, step),
        starts,
        output,
        output.stride(0),
        output.stride(1),
        scale * 1.4426950408889634,
        group=group,
        step=step,
        stages=stages,
        width=width,
        num_warps=4,
        maxnreg=168,
    )
