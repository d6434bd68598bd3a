"""Adapters (LoRA), which an engine may serve under names of their own beside its model.

They are asked for as a model is. Which engine has them, and how it loads them, is not
known here.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from hookline.engine.commands import EngineCommand
from hookline.payloads import EngineFacts

R = TypeVar("R")


class ServedAdapter(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter as `/v1/adapters` shows it.

    Attributes:
        name: Name by which requests ask for it.
        path: Folder that it was read from.
        digest: SHA-256 over its configuration and weights.
        rank: Largest rank of its products.
        targets: Names of the layers that it changes.
        parent: The base model that it names; None if it names none.
        level: Where its weights are: `gpu` is a slot of the step, `cpu` main memory,
            `disk` neither.
        pinned: Whether it stays in memory.
        leaving: Whether it takes no new requests and is unloaded after the last.
        running: Number of its running requests, in all engines.
        waiting: Number of its requests that wait.
        num_bytes: Bytes of its weights in memory.
    """

    name: str
    path: str
    digest: str
    rank: int
    targets: tuple[str, ...]
    parent: str | None
    level: str
    pinned: bool = False
    leaving: bool = False
    running: int = 0
    waiting: int = 0
    num_bytes: int = 0


class AdapterToLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants to have loaded.

    Attributes:
        name: Name that requests will use.
        path: Folder with its files.
        base_model_name: The base model that its card shows; None for the served one.
        is_pinned: Whether it stays in memory.
        replaces: Whether it may take the place of an adapter of this name.
    """

    name: str
    path: str
    base_model_name: str | None = None
    is_pinned: bool = False
    replaces: bool = False


class Ask(Protocol):
    """Sends a command to all engines, and returns their replies."""

    async def __call__(self, command: EngineCommand[R], /) -> tuple[R, ...]:
        """Raises what `ServingEngine.call` raises."""
        ...


class AdapterManager(Protocol):
    """Loads and unloads an engine's adapters while it serves; for the event loop.

    Its methods raise `ApiError` for what is refused, and what `Ask` raises.
    """

    async def find(self, ask: Ask, name: str) -> bool:
        """Returns whether a name can be served, after looking for one that is new."""
        ...

    async def load(
        self, ask: Ask, adapter: AdapterToLoad, taken: Sequence[str]
    ) -> None:
        """Loads an adapter in every engine, or in none.

        Args:
            ask: Reaches the engines.
            adapter: The adapter.
            taken: Names that belong to the base model.
        """
        ...

    async def unload(self, ask: Ask, name: str, *, aborts: bool) -> None:
        """Unloads an adapter from every engine; returns once its requests have ended.

        Args:
            ask: Reaches the engines.
            name: Its name.
            aborts: Whether its requests are aborted, and not waited for.
        """
        ...

    async def pin(self, ask: Ask, name: str, *, is_pinned: bool) -> None:
        """Keeps an adapter in memory, or no longer."""
        ...

    async def served(self, ask: Ask) -> Sequence[ServedAdapter]:
        """Returns all adapters, by their names."""
        ...

    def path_of(self, name: str) -> str:
        """Returns the folder of an adapter that is served."""
        ...

    def parent_of(self, name: str) -> str | None:
        """Returns the base model that an adapter names; None if it names none."""
        ...


@runtime_checkable
class AdapterFacts(Protocol):
    """A section of the facts of an engine that serves adapters.

    Attributes:
        adapters: Their names, at this moment.
    """

    @property
    def adapters(self) -> tuple[str, ...]: ...


@runtime_checkable
class ManagedAdapters(AdapterFacts, Protocol):
    """Such a section of an engine whose adapters come and go."""

    def manager(self) -> AdapterManager:
        """Returns what loads and unloads them; always the same."""
        ...


def adapters_of(facts: EngineFacts) -> tuple[str, ...]:
    """Returns the names of the adapters that an engine serves."""
    for section in facts.sections.values():
        if isinstance(section, AdapterFacts):
            return section.adapters
    return ()


def manager_of(facts: EngineFacts) -> AdapterManager | None:
    """Returns what manages an engine's adapters; None if they do not change."""
    for section in facts.sections.values():
        if isinstance(section, ManagedAdapters):
            return section.manager()
    return None
