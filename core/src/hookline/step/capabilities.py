"""What an executor can do for the plugins that run beside it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCapabilities:
    """What an executor offers to proposers and logits processors.

    Attributes:
        hidden_states: Hands the target's hidden states to proposers that need them.
        draft_trees: Verifies trees of drafts, not only chains.
        logits: Has logits, which logits processors can change.
    """

    hidden_states: bool = False
    draft_trees: bool = False
    logits: bool = False
