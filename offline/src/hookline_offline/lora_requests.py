"""Adapters (LoRA) that prompts of scripts name, also as vLLM's `LoRARequest`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec

from hookline.exceptions import RequestError
from hookline.payloads import EngineFacts
from hookline.request import RequestFacts


@dataclass(frozen=True, slots=True)
class LoRARequest:
    """An adapter that a prompt is computed with; it is loaded if it is not yet.

    Attributes:
        lora_name: Its name.
        lora_int_id: A number that vLLM needs; it means nothing here.
        lora_path: Folder with its files; empty for one that is loaded.
    """

    lora_name: str
    lora_int_id: int = 0
    lora_path: str = ""


Named = str | LoRARequest | None


@runtime_checkable
class _LoadsAdapters(Protocol):
    """A section of the facts of an engine that loads adapters."""

    @property
    def adapters(self) -> tuple[str, ...]: ...

    def load_for_script(self, call: Any, name: str, path: str) -> None:
        """Loads an adapter; raises `RequestError` if that is impossible."""
        ...


def load_new(facts: EngineFacts, call: Any, given: Named | Sequence[Named]) -> None:
    """Loads the adapters that have a path and are not loaded.

    Args:
        facts: The engine's facts.
        call: Sends a command to the engine, as `LLM.call`.
        given: What the caller has named.

    Raises:
        RequestError: One cannot be loaded.
    """
    loader = next(
        (each for each in facts.sections.values() if isinstance(each, _LoadsAdapters)),
        None,
    )
    for each in _several(given):
        path = getattr(each, "lora_path", "")
        if not path or (loader is not None and _name(each) in loader.adapters):
            continue
        if loader is None:
            raise RequestError(
                "adapters are off: LLM(model, enable_lora=True)", param="lora_request"
            )
        loader.load_for_script(call, _name(each), path)


def with_adapters(
    facts: Sequence[RequestFacts], given: Named | Sequence[Named]
) -> list[RequestFacts]:
    """Returns the facts of prompts with the names of their adapters.

    Args:
        facts: Of each prompt.
        given: For all prompts, or one per prompt; None is the model itself.

    Raises:
        RequestError: They are as many as the prompts neither, or of another type.
    """
    if given is None:
        return list(facts)
    named = _several(given)
    if isinstance(given, str) or not isinstance(given, Sequence):
        named = named * len(facts)
    if len(named) != len(facts):
        raise RequestError(
            f"lora_request has {len(named)} entries, but there are {len(facts)} "
            "prompts",
            param="lora_request",
        )
    return [
        who if each is None else msgspec.structs.replace(who, lora=_name(each))
        for who, each in zip(facts, named, strict=True)
    ]


def _several(given: Named | Sequence[Named]) -> list[Named]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        return [given]
    return list(given)


def _name(named: Named) -> str:
    name = named if isinstance(named, str) else getattr(named, "lora_name", None)
    if not isinstance(name, str) or not name:
        raise RequestError(
            "lora_request must be the name of an adapter, or a LoRARequest",
            param="lora_request",
        )
    return name
