"""Proposer `eagle`: drafts by an EAGLE head.

Importing it is cheap: torch is imported when a proposer is made.
"""

from hookline.hookspecs import hookimpl
from hookline_drafting import Proposer, ProposerContext, TrainingContext, TrainingReport

__all__ = ["create_proposer", "train_draft"]


@hookimpl
def create_proposer(context: ProposerContext) -> Proposer:
    """Raises `ConfigError` if the head is missing or not supported."""
    from hookline_eagle.proposer import EagleProposer  # noqa: PLC0415

    return EagleProposer.load(context)


@hookimpl
def train_draft(context: TrainingContext) -> TrainingReport:
    """Raises `ConfigError` for an unknown or wrong option."""
    from hookline_eagle.training import train  # noqa: PLC0415

    return train(context)
