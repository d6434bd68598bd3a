"""An object whose methods are called, and what they returned and raised."""

from collections.abc import Callable, Sequence

from hookline_registry import Failure, isolate


class Watched:
    """Passes calls on to an object and notes their outcomes.

    Attributes:
        kind: The object's class.
        errors: The first exception of each method.
    """

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self._values: dict[str, list[object]] = {}
        self.kind = type(inner)
        self.errors: dict[str, Failure] = {}

    def values(self, method: str) -> Sequence[object]:
        """Returns what a method has returned, in order."""
        return self._values.get(method, ())

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        return self._watching(name, found) if callable(found) else found

    def _watching(
        self, name: str, method: Callable[..., object]
    ) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            outcome = isolate(method, *given, **named)
            if isinstance(outcome, Failure):
                self.errors.setdefault(name, outcome)
                raise outcome.error
            self._values.setdefault(name, []).append(outcome)
            return outcome

        return call
