"""Proposers: how many drafts, of which type and within the vocabulary."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from hookline.config import EngineConfig
from hookline.sampling_params import SamplingParams
from hookline_drafting import (
    DraftRequest,
    Drafts,
    Proposer,
    ProposerCapabilities,
    ProposerContext,
)
from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject

_VOCABULARY = 32
_MOST = 3
_TEXTS = ([1, 2, 3, 1, 2], [5], [4, 4, 4, 4, 4, 4], [7, 8])


def check(subject: Subject) -> None:
    """Asks for drafts of texts that grow, and has them released."""
    subject.refuses_unknown(_context)
    made = subject.create(context=_context(subject.options))
    if made is None or not subject.has(made, Proposer):
        return
    proposer = cast("Proposer", made)
    found = proposer.capabilities
    if not isinstance(found, ProposerCapabilities):
        subject.fault("its capabilities are no ProposerCapabilities", type(made))
        return
    if found.needs_hidden_states or found.kv_layers:
        return  # it needs a target
    for length in range(3):
        asked = [
            _request(index, [*text, *text[:length]], _MOST if index else length)
            for index, text in enumerate(_TEXTS)
        ]
        drafts = subject.call("propose", proposer.propose, asked)
        if isinstance(drafts, Failure):
            return
        _check_drafts(subject, made, asked, drafts)
    subject.call("release of a request that is unknown", proposer.release, [99])
    subject.call("release", proposer.release, range(len(_TEXTS)))
    subject.call("propose without requests", proposer.propose, [])


def _context(options: Mapping[str, object]) -> ProposerContext:
    return ProposerContext(
        config=EngineConfig(), options=options, num_speculative_tokens=_MOST
    )


def _request(index: int, text: Sequence[int], most: int) -> DraftRequest:
    token_ids = np.array(text, np.int32)
    token_ids.setflags(write=False)
    return DraftRequest(
        request_id=index,
        token_ids=token_ids,
        max_drafts=most,
        params=SamplingParams(max_tokens=9),
    )


def _check_drafts(
    subject: Subject, made: object, asked: Sequence[DraftRequest], drafts: object
) -> None:
    code = getattr(type(made), "propose", None)
    if not isinstance(drafts, Sequence) or len(drafts) != len(asked):
        subject.fault(f"propose returns one Drafts for each of {len(asked)}", code)
        return
    for request, each in zip(asked, drafts, strict=True):
        if not isinstance(each, Drafts):
            kind = type(each).__name__
            subject.fault(f"propose returns {kind}, not Drafts", code)
            return
        _check_one(subject, code, request, each)


def _check_one(
    subject: Subject, code: object, request: DraftRequest, drafts: Drafts
) -> None:
    token_ids = np.asarray(drafts.token_ids)
    if token_ids.ndim != 1 or (token_ids.size and token_ids.dtype.kind not in "iu"):
        subject.fault(
            f"Drafts.token_ids are [drafts] of int, not {list(token_ids.shape)} of "
            f"{token_ids.dtype}",
            code,
        )
        return
    if len(token_ids) > request.max_drafts:
        subject.fault(
            f"propose drafts {len(token_ids)} tokens where max_drafts is "
            f"{request.max_drafts}",
            code,
        )
    if token_ids.size and not 0 <= token_ids.min() <= token_ids.max() < _VOCABULARY:
        subject.fault("Drafts.token_ids are outside of the vocabulary", code)
    if drafts.probabilities is None:
        return
    rows = np.asarray(drafts.probabilities)
    if rows.ndim != 2 or len(rows) != len(token_ids) or rows.dtype.kind != "f":
        subject.fault(
            f"Drafts.probabilities are [{len(token_ids)} drafts, vocabulary] of float, "
            f"not {list(rows.shape)} of {rows.dtype}",
            code,
        )
    elif not np.allclose(rows.sum(-1), 1, atol=1e-3):
        subject.fault("each row of Drafts.probabilities adds up to 1", code)
