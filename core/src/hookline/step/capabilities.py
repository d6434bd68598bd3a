"""Capabilities of an executor for extensions and logits processors."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCapabilities:
    """Capabilities of an executor for extensions and logits processors.

    Attributes:
        hidden_states: Whether it has the model's hidden states.
        draft_trees: Whether it verifies trees of drafts, not only chains.
        logits: Whether it has logits, which logits processors can change.
    """

    hidden_states: bool = False
    draft_trees: bool = False
    logits: bool = False
