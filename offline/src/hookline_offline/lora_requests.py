"""Adapters (LoRA) that prompts of scripts name, also as vLLM's `LoRARequest`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace

from hookline.exceptions import RequestError
from hookline.frontend.front_end import FrontEnd
from hookline.request import RequestFacts
from hookline_offline.prompts import per_prompt


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


class _Script(Protocol):
    """An `LLM`."""

    @property
    def front_end(self) -> FrontEnd: ...

    @property
    def call(self) -> Callable[..., Any]: ...


def facts_of(
    llm: _Script,
    prompts: int,
    facts: RequestFacts | Sequence[RequestFacts] | None,
    named: Named | Sequence[Named],
    operation: str | None = None,
) -> list[RequestFacts]:
    """Returns the facts of each prompt, with its adapter, which is loaded if needed.

    Args:
        llm: The engine.
        prompts: Number of prompts.
        facts: For all prompts, or one per prompt.
        named: Adapters; likewise. None is the model itself.
        operation: The facts' operation; None is that of generation.

    Raises:
        RequestError: They are neither one nor as many as the prompts, or of another
            type, or an adapter cannot be loaded.
    """
    found = per_prompt("facts", facts, RequestFacts, prompts)
    if operation is not None:
        found = [replace(each, operation=operation) for each in found]
    if named is None:
        return found
    several = _several(named)
    if isinstance(named, str) or not isinstance(named, Sequence):
        several = several * prompts
    if len(several) != prompts:
        raise RequestError(
            f"lora_request has {len(several)} entries, but there are {prompts} prompts",
            param="lora_request",
        )
    _load_new(llm, several)
    return [
        who if each is None else replace(who, lora=_name(each))
        for who, each in zip(found, several, strict=True)
    ]


def _load_new(llm: _Script, named: Sequence[Named]) -> None:
    """Loads the adapters that have a path and are not loaded."""
    sections = llm.front_end.facts.sections.values()
    loaders = (each for each in sections if isinstance(each, _LoadsAdapters))
    loader = next(loaders, None)
    for each in named:
        path = getattr(each, "lora_path", "")
        if not path or (loader is not None and _name(each) in loader.adapters):
            continue
        if loader is None:
            raise RequestError(
                "adapters are off: LLM(model, enable_lora=True)", param="lora_request"
            )
        loader.load_for_script(llm.call, _name(each), path)


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
