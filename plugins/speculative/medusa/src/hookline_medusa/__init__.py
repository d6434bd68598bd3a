"""Proposer `medusa`: drafts by Medusa heads."""

from hookline.hookspecs import hookimpl
from hookline.payloads import ProposerContext, TrainingContext, TrainingReport
from hookline_medusa.options import MedusaOptions
from hookline_medusa.proposer import MedusaProposer

__all__ = ["MedusaOptions", "MedusaProposer", "create_proposer", "train_draft"]


@hookimpl
def create_proposer(context: ProposerContext) -> MedusaProposer:
    """Raises `ConfigError` where there are no heads, or too few."""
    return MedusaProposer.load(context)


@hookimpl
def train_draft(context: TrainingContext) -> TrainingReport:
    """Raises `ConfigError` for an option that it does not have or cannot use."""
    from hookline_medusa.training import train  # noqa: PLC0415 - to draft needs none

    return train(context)
