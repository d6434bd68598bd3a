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

    def require(
        self, protocol: type, former: Callable[[object], object] | None = None
    ) -> None:
        """Raises `ConfigError` if the value lacks a public member of a Protocol.

        If only `capabilities` are missing, `former` tells them by its attributes.
        """
        if self.value is None:
            raise self._error("its factory returned None")
        members = (name for name in dir(protocol) if not name.startswith("_"))
        missing = [name for name in members if not hasattr(self.value, name)]
        if missing == ["capabilities"] and former is not None:
            self._take_former(former(self.value))
        elif missing:
            raise self._error(f"it has no {', '.join(missing)}")

    def _take_former(self, capabilities: object) -> None:
        """Gives a plugin capabilities that it need not declare until next release."""
        warnings.warn(
            f"the {self.kind} of {self.plugin!r} declares no `capabilities`: until the "
            "next release, those that its attributes tell are taken",
            DeprecationWarning,
            stacklevel=3,
        )
        outcome = isolate(setattr, self.value, "capabilities", capabilities)
        if isinstance(outcome, Failure):
            raise self._error("it has no capabilities")

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
