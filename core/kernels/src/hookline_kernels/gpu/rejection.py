"""Rejection sampling of draft tokens, one program per request."""

import torch

from hookline_kernels.gpu.inversion import chosen_token, invert_tile
from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.rejection import Verified

_TILE = 4096


def reject(
    draft_tokens: torch.Tensor,
    draft_starts: torch.Tensor,
    draft_probabilities: torch.Tensor | None,
    target_probabilities: torch.Tensor,
    *,
    accept_points: torch.Tensor,
    next_points: torch.Tensor,
) -> Verified:
    """Like `reject_reference`; inputs may have any strides."""
    count = len(next_points)
    vocab_size = target_probabilities.shape[1]
    tokens = torch.empty((2, count), dtype=torch.int64, device=next_points.device)
    if count:
        drafts = draft_probabilities
        _reject_kernel[(count,)](
            *(draft_tokens, draft_starts),
            *(drafts, *((0, 0) if drafts is None else drafts.stride())),
            *(target_probabilities, *target_probabilities.stride(), vocab_size),
            *(accept_points, next_points, tokens[0], tokens[1]),
            certain=drafts is None,
            tile=min(_TILE, power_of_two(vocab_size)),
            num_warps=8,
        )
    return Verified(tokens[0], tokens[1])


@kernel
def _excess(  # noqa: PLR0917 - a kernel takes no keywords
    tokens: tl.tensor,
    vocab_size: tl.tensor,
    targets: tl.tensor,
    target_token: tl.tensor,
    drafts: tl.tensor,
    draft_token: tl.tensor,
    draft: tl.tensor,
    subtracts: tl.tensor,
    certain: tl.constexpr,
) -> tl.tensor:
    """Returns the excess of the target's probabilities over the draft's.

    Args:
        tokens: [tile].
        vocab_size: Number of tokens.
        targets: A row of target probabilities.
        target_token: Stride of that row.
        drafts: A row of draft probabilities, not read if `certain`.
        draft_token: Stride of that row.
        draft: The draft token, used if `certain`.
        subtracts: Whether to subtract the draft's; else returns the target's.
        certain: Whether the draft token has all of the draft's probability.
    """
    exists = tokens < vocab_size
    at = tokens.to(tl.int64)
    weights = tl.load(targets + at * target_token, mask=exists, other=0.0)
    if certain:
        excess = tl.where(subtracts & (tokens == draft), 0.0, weights)
    else:
        drafted = tl.load(drafts + at * draft_token, mask=exists & subtracts, other=0.0)
        excess = tl.maximum(weights - drafted, 0.0)
    return excess


@kernel
def _first_rejected(  # noqa: PLR0917 - a kernel takes no keywords
    start: tl.tensor,
    end: tl.tensor,
    draft_tokens: tl.tensor,
    drafts: tl.tensor,
    draft_row: tl.tensor,
    draft_token: tl.tensor,
    targets: tl.tensor,
    target_row: tl.tensor,
    target_token: tl.tensor,
    accept_points: tl.tensor,
    certain: tl.constexpr,
) -> tl.tensor:
    """Returns the index of the first draft that is rejected, and a token.

    Args:
        start: Index of the request's first draft.
        end: Index behind its last draft.
        draft_tokens: Of all requests.
        drafts: Draft probabilities, not read if `certain`; then their strides.
        draft_row: Stride of drafts.
        draft_token: Stride of tokens.
        targets: Target probabilities, those of a draft in the row of its index.
        target_row: Stride of rows.
        target_token: Stride of tokens.
        accept_points: Uniform numbers, one a draft.
        certain: Whether each draft token has all of the draft's probability.

    Returns:
        The index, `end` if all are accepted; and the token of the draft that was looked
        at last, 0 without drafts.
    """
    at = start
    draft = tl.full([], 0, tl.int64)
    is_accepted = start < end
    while is_accepted:
        draft = tl.load(draft_tokens + at).to(tl.int64)
        target = tl.load(targets + at * target_row + draft * target_token)
        point = tl.load(accept_points + at).to(tl.float64)
        drafted = tl.full([], 1.0, tl.float64)
        if not certain:
            drafted = tl.load(drafts + at * draft_row + draft * draft_token)
            drafted = drafted.to(tl.float64)
        is_kept = point * drafted < target.to(tl.float64)
        at += is_kept.to(tl.int64)
        is_accepted = is_kept & (at < end)
    return at, draft


@kernel
def _sum_of_row(
    row: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    tile: tl.constexpr,
) -> tl.tensor:
    """Returns the sum of a row of probabilities in float64."""
    total = tl.full([], 0, tl.float64)
    for begin in range(0, vocab_size, tile):
        tokens = begin + tl.arange(0, tile)
        at = row + tokens.to(tl.int64) * token_stride
        weights = tl.load(at, mask=tokens < vocab_size, other=0.0)
        total += tl.sum(weights.to(tl.float64), 0)
    return total


@kernel
def _reject_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    draft_tokens: tl.tensor,
    draft_starts: tl.tensor,
    drafts: tl.tensor,
    draft_row: tl.tensor,
    draft_token: tl.tensor,
    targets: tl.tensor,
    target_row: tl.tensor,
    target_token: tl.tensor,
    vocab_size: tl.tensor,
    accept_points: tl.tensor,
    next_points: tl.tensor,
    num_accepted: tl.tensor,
    next_tokens: tl.tensor,
    certain: tl.constexpr,
    tile: tl.constexpr,
) -> None:
    """Verifies one request."""
    request = tl.program_id(0).to(tl.int64)
    start = tl.load(draft_starts + request).to(tl.int64)
    end = tl.load(draft_starts + request + 1).to(tl.int64)
    at, draft = _first_rejected(
        start,
        end,
        draft_tokens,
        drafts,
        draft_row,
        draft_token,
        targets + request * target_row,
        target_row,
        target_token,
        accept_points,
        certain,
    )
    tl.store(num_accepted + request, at - start)

    targets += (at + request) * target_row
    subtracts = tl.full([], True, tl.int1) & (at < end)
    if not certain:
        drafts += tl.minimum(at, tl.maximum(end - 1, 0)) * draft_row
    total = tl.full([], 0, tl.float64)
    for begin in range(0, vocab_size, tile):
        tokens = begin + tl.arange(0, tile)
        weights = _excess(
            tokens,
            vocab_size,
            targets,
            target_token,
            drafts,
            draft_token,
            draft,
            subtracts,
            certain,
        )
        total += tl.sum(weights.to(tl.float64), 0)
    if total == 0:  # equal up to rounding
        subtracts = subtracts & (total > 0)
        total = _sum_of_row(targets, target_token, vocab_size, tile)
    target_sum = tl.load(next_points + request).to(tl.float64) * total
    running = tl.full([], 0, tl.float64)
    found = tl.full([], 2147483647, tl.int32)
    last = tl.full([], -1, tl.int32)
    for begin in range(0, vocab_size, tile):
        tokens = begin + tl.arange(0, tile)
        weights = _excess(
            tokens,
            vocab_size,
            targets,
            target_token,
            drafts,
            draft_token,
            draft,
            subtracts,
            certain,
        )
        running, found, last = invert_tile(
            weights, tokens, target_sum, running, found, last
        )
    tl.store(next_tokens + request, chosen_token(found, last))
