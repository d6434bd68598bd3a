"""Proposer `medusa`: drafts by Medusa heads.

Importing it is cheap: torch is imported when a proposer is made.
"""

from hookline.hookspecs import hookimpl
from hookline_drafting import Proposer, ProposerContext, TrainingContext, TrainingReport

__all__ = ["create_proposer", "train_draft"]


@hookimpl
def create_proposer(context: ProposerContext) -> Proposer:
    """Raises `ConfigError` if the heads are missing or too few."""
    from hookline_medusa.proposer import MedusaProposer  # noqa: PLC0415

    return MedusaProposer.load(context)


@hookimpl
def train_draft(context: TrainingContext) -> TrainingReport:
    """Raises `ConfigError` for an unknown or wrong option."""
    from hookline_medusa.training import train  # noqa: PLC0415

    return train(context)
