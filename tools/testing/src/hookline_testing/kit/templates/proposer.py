"""Proposer `sample`: drafts what last followed the same pair of tokens."""

from collections.abc import Sequence

from hookline import hookimpl
from hookline_drafting import (
    DraftRequest,
    Drafts,
    ProposerCapabilities,
    ProposerContext,
)
from hookline_drafting.method_options import refuse_unknown

OPTION = "speculative-config"


class SampleProposer:
    """Remembers the token after each pair of tokens, for all requests together."""

    capabilities = ProposerCapabilities()

    def __init__(self) -> None:
        self._after: dict[tuple[int, int], int] = {}

    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        """Runs in a thread that no other plugin uses."""
        return [self._draft(request) for request in requests]

    def release(self, request_ids: Sequence[int]) -> None:
        """Has no state of single requests."""

    def _draft(self, request: DraftRequest) -> Drafts:
        text: list[int] = request.token_ids.tolist()
        first, second, last = [-1, -1, *text][-3:]
        self._after[first, second] = last
        drafts: list[int] = []
        while len(drafts) < request.max_drafts and (second, last) in self._after:
            second, last = last, self._after[second, last]
            drafts.append(last)
        return Drafts(token_ids=drafts)


@hookimpl
def create_proposer(context: ProposerContext) -> SampleProposer:
    """Raises `ConfigError` for an option, as there are none."""
    refuse_unknown("sample", OPTION, context.options, ())
    return SampleProposer()
