"""Proposer `ngram`: drafts by prompt lookup.

Importing it is cheap: numba is imported when a proposer is made.
"""

from hookline.hookspecs import hookimpl
from hookline_drafting import Proposer, ProposerContext
from hookline_ngram.options import NgramOptions

__all__ = ["NgramOptions", "create_proposer"]


@hookimpl
def create_proposer(context: ProposerContext) -> Proposer:
    """Raises `ConfigError` for an unknown or wrong option."""
    from hookline_ngram.proposer import NgramProposer  # noqa: PLC0415

    return NgramProposer(NgramOptions.from_mapping(context.options))
