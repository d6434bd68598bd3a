"""Checks what a plugin's factory hook returned before the engine uses it."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from hookline.exceptions import ConfigError
from hookline_registry import Failure, isolate

C = TypeVar("C")


class _Declaring(Protocol):
    @property
    def capabilities(self) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The return value of a plugin's factory hook.

    Attributes:
        plugin: Name of the plugin.
        option: Command-line option that named it, for errors.
        kind: Kind of object that the hook makes, such as `proposer`.
        value: The returned object.
    """

    plugin: str
    option: str
    kind: str
    value: object

    def require(self, protocol: type) -> None:
        """Raises `ConfigError` if the value lacks a public member of a Protocol."""
        if self.value is None:
            raise self._error("its factory returned None")
        members = (name for name in dir(protocol) if not name.startswith("_"))
        missing = [name for name in members if not hasattr(self.value, name)]
        if missing:
            raise self._error(f"it has no {', '.join(missing)}")

    def take_former(self, capabilities: Callable[[object], object]) -> None:
        """Gives a value without `capabilities` those that its attributes tell.

        They were found out so before plugins had to declare them.
        """
        if self.value is None or hasattr(self.value, "capabilities"):
            return
        warnings.warn(
            f"the {self.kind} of {self.plugin!r} declares no `capabilities`: until the "
            "next release, those that its attributes tell are taken",
            DeprecationWarning,
            stacklevel=2,
        )
        isolate(lambda: setattr(self.value, "capabilities", capabilities(self.value)))

    def capabilities(self, kind: type[C]) -> C:
        """Returns the declared capabilities; `ConfigError` if of another class."""
        declaring = cast("_Declaring", self.value)
        found = isolate(lambda: declaring.capabilities)
        if isinstance(found, Failure):
            raise self._error(f"its capabilities fail: {found.summary}")
        if not isinstance(found, kind):
            raise self._error(f"its capabilities are {found!r}, not {kind.__name__}")
        return found

    def _error(self, reason: str) -> ConfigError:
        return ConfigError(
            self.option, f"{self.plugin!r} provides no {self.kind}: {reason}"
        )
