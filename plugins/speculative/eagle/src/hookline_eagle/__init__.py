"""Proposer `eagle`: drafts by an EAGLE head."""

from hookline.hookspecs import hookimpl
from hookline.payloads import ProposerContext, TrainingContext, TrainingReport
from hookline_eagle.options import EagleOptions
from hookline_eagle.proposer import EagleProposer

__all__ = ["EagleOptions", "EagleProposer", "create_proposer", "train_draft"]


@hookimpl
def create_proposer(context: ProposerContext) -> EagleProposer:
    """Raises `ConfigError` where there is no head, or one that is not understood."""
    return EagleProposer.load(context)


@hookimpl
def train_draft(context: TrainingContext) -> TrainingReport:
    """Raises `ConfigError` for an option that it does not have or cannot use."""
    from hookline_eagle.training import train  # noqa: PLC0415 - to draft needs none

    return train(context)
