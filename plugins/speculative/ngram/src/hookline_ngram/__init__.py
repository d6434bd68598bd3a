"""Proposer `ngram`: drafts by prompt lookup."""

from hookline.hookspecs import hookimpl
from hookline.payloads import ProposerContext
from hookline_ngram.options import NgramOptions
from hookline_ngram.proposer import NgramProposer

__all__ = ["NgramOptions", "NgramProposer", "create_proposer"]


@hookimpl
def create_proposer(context: ProposerContext) -> NgramProposer:
    """Raises `ConfigError` for an option that it does not have or cannot use."""
    return NgramProposer(NgramOptions.from_mapping(context.options))
