"""Adapters (LoRA), which an engine may serve under names of their own beside its model.

They are asked for as a model is. Which engine has them is not known here.
"""

from typing import Protocol, runtime_checkable

from hookline.payloads import EngineFacts


@runtime_checkable
class AdapterFacts(Protocol):
    """A section of the facts of an engine that serves adapters.

    Attributes:
        adapters: Their names.
    """

    adapters: tuple[str, ...]


def adapters_of(facts: EngineFacts) -> tuple[str, ...]:
    """Returns the names of the adapters that an engine serves."""
    for section in facts.sections.values():
        if isinstance(section, AdapterFacts):
            return section.adapters
    return ()
