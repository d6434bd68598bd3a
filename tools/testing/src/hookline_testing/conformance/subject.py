"""The plugin that is tested, and the faults found so far."""

import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from hookline.exceptions import ConfigError
from hookline.frozen import frozen_json
from hookline_registry import Failure, PluginKind, PluginRegistry, isolate
from hookline_registry.declarations import at, line_of
from hookline_registry.discovery import find

T = TypeVar("T")
UNKNOWN = "no_such_option"
_OWN = (bytes, bytearray)
"""Types that are not spelt as text."""
_SECONDS = 600.0
"""Time after which a call is taken to hang."""


class Subject:
    """A plugin and what is wrong with it.

    Attributes:
        kind: Its kind.
        name: Name of its entry point.
        registry: Where it is registered.
        registered: Its name there.
        options: Options without which it cannot be made.
        faults: A sentence for each fault.
    """

    def __init__(
        self,
        kind: PluginKind,
        name: str,
        registry: PluginRegistry,
        registered: str,
        options: Mapping[str, object],
    ) -> None:
        self.kind = kind
        self.name = name
        self.registry = registry
        self.registered = registered
        self.options = frozen_json(options)
        self.faults: list[str] = []
        value = find(kind.group, name).value
        module, _, attribute = value.partition(":")
        self.plugin: object = sys.modules[module]
        for part in filter(None, attribute.split(".")):
            self.plugin = getattr(self.plugin, part)
        self._folder = Path(sys.modules[module].__file__ or "").parent

    @property
    def factory(self) -> object:
        """The function that makes what the plugin provides, for faults."""
        return getattr(self.plugin, self.kind.hook, self.plugin)

    def fault(self, sentence: str, code: object = None) -> None:
        """Notes a fault; `code` is the author's function or class."""
        place = line_of(code) if callable(code) else ""
        self.faults.append(f"{sentence}{place}")

    def create(self, **arguments: object) -> object | None:
        """Has the plugin's factory make something; a failure is a fault."""
        make = self.registry.maker(self.registered, self.kind.hook)
        if make is None:
            self.fault(f"it has no hook {self.kind.hook}")
            return None
        made = isolate(make, **arguments)  # in this thread, as a server does
        if isinstance(made, Failure):
            self.raised(self.kind.hook, made)
            return None
        if made is None:
            self.fault(f"{self.kind.hook} returned None", self.factory)
        return made

    def refuses_unknown(
        self, context_of: Callable[[Mapping[str, object]], object]
    ) -> None:
        """Has the factory refuse an option that there is not.

        Args:
            context_of: Returns the factory's argument with these options.
        """
        make = self.registry.maker(self.registered, self.kind.hook)
        if make is None:
            return
        options = frozen_json({**self.options, UNKNOWN: 1})
        made = isolate(make, context=context_of(options))
        if isinstance(made, Failure):
            if isinstance(made.error, ConfigError):
                return
            self.fault(
                f"{self.kind.hook} refuses an unknown option by {made.summary}: raise "
                "ConfigError, whose message the user sees",
                self.factory,
            )
            return
        self.fault(
            f"{self.kind.hook} takes the unknown option {UNKNOWN!r} in silence: raise "
            "ConfigError (hookline.config.checks.refuse_unknown)",
            self.factory,
        )

    def call(
        self, name: str, function: Callable[..., T], *given: object, **named: object
    ) -> T | Failure:
        """Calls the plugin in a thread of its own, as the engine does.

        An exception is a fault, and so is a call that does not return.
        """
        results: list[T | Failure] = []

        def run() -> None:
            results.append(isolate(function, *given, **named))

        thread = threading.Thread(target=run, name="hookline-conformance", daemon=True)
        thread.start()
        thread.join(_SECONDS)
        if not results:
            self.fault(f"{name} has not returned in {_SECONDS:g} s", function)
            return Failure(TimeoutError(name))
        outcome = results[0]
        if isinstance(outcome, Failure):
            self.raised(name, outcome)
        return outcome

    def raised(self, name: str, outcome: Failure) -> None:
        """Notes an exception, with the author's line that it came from."""
        place = self._place(outcome.error)
        self.faults.append(f"{name} raised {outcome.summary}{place}")

    def has(self, made: object, protocol: type) -> bool:
        """Whether an object has all members of a Protocol; each other is a fault."""
        names = {*dir(protocol), *_annotated(protocol)} - set(dir(object))
        missing = sorted(
            name
            for name in names
            if not name.startswith("_") and not hasattr(made, name)
        )
        for name in missing:
            kind = type(made)
            self.fault(
                f"{kind.__name__} has no {name}, which {protocol.__name__} has", kind
            )
        return not missing

    def typed(self, value: object, kind: object, what: str, code: object) -> bool:
        """Whether a value and all its parts are of a type; if not, it is a fault."""
        if is_dataclass(kind) and isinstance(kind, type):
            if not isinstance(value, kind):
                self._not(value, kind, what, code)
                return False
            value = {each.name: getattr(value, each.name) for each in fields(kind)}
        wanted = cast("type[object]", kind)
        found = isolate(lambda: msgspec.convert(value, wanted, builtin_types=_OWN))
        if not isinstance(found, Failure):
            return True
        if isinstance(found.error, msgspec.ValidationError):
            self.fault(f"{what}: {found.error}".replace("`", "'"), code)
            return False
        return True  # a type that cannot be checked so

    def _not(self, value: object, kind: type, what: str, code: object) -> None:
        found = type(value).__name__
        self.fault(f"{what} is {found}, not {kind.__name__}", code)

    def _place(self, error: BaseException) -> str:
        """Returns the author's line that an exception came from."""
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if Path(frame.filename).is_relative_to(self._folder):
                return at(frame.filename, frame.lineno)
        return line_of(self.factory) if callable(self.factory) else ""


def _annotated(protocol: type) -> set[str]:
    bases = (vars(each).get("__annotations__", {}) for each in protocol.__mro__)
    return {name for names in bases for name in names}
