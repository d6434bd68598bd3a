"""Finds and imports the grammar backend that a configuration names."""

from collections.abc import Mapping, Sequence
from typing import cast

from hookline.config.extensions import STRUCTURED_OUTPUTS_OPTION as OPTION
from hookline.exceptions import ConfigError
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import GRAMMAR_BACKEND
from hookline_grammars.backend import BackendContext, GrammarBackend
from hookline_registry import RegistryError, installed
from hookline_registry.spelling import did_you_mean

AUTO, NONE = "auto", "none"
_PREFERRED = ("xgrammar", "llguidance")
_ALIASES: Mapping[str, str] = {"guidance": "llguidance"}
"""vLLM's other names of backends."""


def chosen_backends(name: str) -> tuple[str, ...]:
    """Returns the names of the backends to use; none if structured outputs are off.

    Imports nothing. `auto` is xgrammar, and llguidance for what xgrammar refuses; any
    other one if neither is installed.

    Raises:
        ConfigError: The named backend is not installed.
    """
    if name == NONE:
        return ()
    found = sorted({plugin.name for plugin in installed(GRAMMAR_BACKEND.group)})
    if name == AUTO:
        preferred = tuple(each for each in _PREFERRED if each in found)
        return preferred or tuple(found[:1])
    name = _ALIASES.get(name, name)
    if name not in found:
        known = ", ".join(found) or "none"
        hint = did_you_mean(name, found)
        raise ConfigError(
            OPTION, f"backend {name!r} is not installed (installed: {known}){hint}"
        )
    return (name,)


def make_backend(name: str, context: BackendContext) -> GrammarBackend:
    """Imports and creates a backend.

    Raises:
        ConfigError: It cannot be imported, or is not a backend.
    """
    try:
        create = hook_of(GRAMMAR_BACKEND, name)
    except RegistryError as error:
        raise ConfigError(OPTION, str(error)) from error
    made = create(context=context)
    missing = _missing(made, ("compile", "matcher"))
    if missing:
        raise ConfigError(OPTION, f"{name!r} makes no backend: it has no {missing[0]}")
    return cast("GrammarBackend", made)


def _missing(made: object, names: Sequence[str]) -> list[str]:
    return [name for name in names if not callable(getattr(made, name, None))]
