"""Extension `drafting`: speculative decoding, whatever proposer drafts.

Importing it is cheap: its names are imported on first access.
"""

from typing import TYPE_CHECKING

from hookline.hookspecs import hookimpl
from hookline.moved_modules import lazy_exports

if TYPE_CHECKING:
    from hookline.payloads import ExtensionContext
    from hookline_drafting.capabilities import ProposerCapabilities
    from hookline_drafting.config import SpeculativeConfig
    from hookline_drafting.contexts import (
        ProposerContext,
        TrainingContext,
        TrainingReport,
    )
    from hookline_drafting.proposer import (
        CachingProposer,
        DraftRequest,
        Drafts,
        HiddenStateProposer,
        Proposer,
    )
    from hookline_drafting.target import DraftLayer, HiddenStates, TargetModel
    from hookline_drafting.tree import MAX_TREE_DRAFTS

__all__ = [
    "MAX_TREE_DRAFTS",
    "CachingProposer",
    "DraftLayer",
    "DraftRequest",
    "Drafts",
    "HiddenStateProposer",
    "HiddenStates",
    "Proposer",
    "ProposerCapabilities",
    "ProposerContext",
    "SpeculativeConfig",
    "TargetModel",
    "TrainingContext",
    "TrainingReport",
    "create_extension",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "hookline_drafting.capabilities": ("ProposerCapabilities",),
        "hookline_drafting.config": ("SpeculativeConfig",),
        "hookline_drafting.contexts": (
            "ProposerContext",
            "TrainingContext",
            "TrainingReport",
        ),
        "hookline_drafting.proposer": (
            "CachingProposer",
            "DraftRequest",
            "Drafts",
            "HiddenStateProposer",
            "Proposer",
        ),
        "hookline_drafting.target": (
            "DraftLayer",
            "HiddenStates",
            "TargetModel",
        ),
        "hookline_drafting.tree": ("MAX_TREE_DRAFTS",),
    },
)


@hookimpl
def create_extension(context: "ExtensionContext") -> object:
    """Makes the extension of an engine or of a rank.

    Raises:
        ConfigError: An option is wrong, or does not fit another one.
    """
    from hookline_drafting.config import SpeculativeConfig  # noqa: PLC0415
    from hookline_drafting.extension import DraftingExtension  # noqa: PLC0415

    speculative = SpeculativeConfig.from_mapping(context.options)
    return DraftingExtension(context, speculative)
