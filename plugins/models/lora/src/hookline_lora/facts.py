"""What front ends know of an engine's adapters: which names requests may use."""

import asyncio
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hookline.engine.commands import EngineCommand
from hookline.exceptions import RefusedError
from hookline.request import GenerateRequest
from hookline.request_part import RequestPart
from hookline_lora.adapter import UNKNOWN, AdapterRef, AdapterUse

if TYPE_CHECKING:  # only a server has it
    from hookline_lora.front_end.manager import LoraManager

R = TypeVar("R")


class KnownAdapters(msgspec.Struct, frozen=True):
    """The adapters of an engine at one moment.

    Attributes:
        version: That of the `LoraAnswer` that told them.
        refs: By name.
    """

    version: int = 0
    refs: Mapping[str, AdapterRef] = {}


class LoraFacts(msgspec.Struct, kw_only=True, dict=True):
    """The section of the facts of an engine that serves adapters.

    Adapters come and go while it serves. Whoever is told of it in a front end replaces
    `known`, from any thread: a request sees the adapters of before or of after.

    Attributes:
        max_loras: Number of slots of a step.
        max_lora_rank: Largest rank of an adapter.
        max_cpu_loras: Number of adapters in main memory; None if bytes alone bound it.
        directory: Folder below which clients may load, and names are resolved; None if
            there is none.
        known: The adapters that requests may use.
    """

    max_loras: int
    max_lora_rank: int
    max_cpu_loras: int | None = None
    directory: str | None = None
    known: KnownAdapters = KnownAdapters()

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of the adapters."""
        return tuple(self.known.refs)

    @property
    def version(self) -> int:
        """Changes with every change of the adapters."""
        return self.known.version

    def manager(self) -> "LoraManager":
        """Implements `ManagedAdapters`."""
        return self._manager

    def load_for_script(self, call: Any, name: str, path: str) -> None:
        """Loads an adapter from a folder that the program itself names.

        Args:
            call: `LLM.call`.
            name: Name of the adapter.
            path: Its folder.

        Raises:
            RequestError: It cannot be loaded.
        """

        async def ask(command: EngineCommand[R], /) -> tuple[R, ...]:
            replies: tuple[R, ...] = call(command)
            return replies

        asyncio.run(self.manager().load_own(ask, name, path))

    @cached_property
    def _manager(self) -> "LoraManager":
        from hookline_lora.front_end.manager import LoraManager  # noqa: PLC0415

        return LoraManager(self)

    def replace(self, known: KnownAdapters) -> None:
        """Replaces all adapters at once, unless `known` is older than what is known."""
        if known.version >= self.known.version:
            self.known = known

    def prepared(
        self,
        asked: object | None,  # noqa: ARG002 - the name is among the request's facts
        request: object | None = None,
    ) -> RequestPart | None:
        """Returns which adapter computes a request; None if its base model does.

        Raises:
            RefusedError: There is no adapter of that name.
        """
        if not isinstance(request, GenerateRequest):
            return None
        if (name := request.facts.lora) is None:
            return None
        if (ref := self.known.refs.get(name)) is None:
            raise RefusedError(
                UNKNOWN,
                f"there is no adapter {name[:64]!r}: load it, or see GET /v1/adapters",
                param="model",
            )
        use = AdapterUse(ref.digest, name, ref.path)
        return RequestPart(section=use, adapter=ref.digest)
