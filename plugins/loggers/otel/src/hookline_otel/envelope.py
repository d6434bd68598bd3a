"""The export request around spans, with its resource and scope encoded once."""

from collections.abc import Iterable

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hookline_otel.wire import AttributeValue, attribute, constant_text, nested

# Encoded keys of a message's fields 1, 2 and 3, each with a length.
_FIRST = b"\x0a"
_SECOND = b"\x12"
_THIRD = b"\x1a"


class Envelope:
    """Wraps spans of one resource and scope in an `ExportTraceServiceRequest`."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        attributes = b"".join(
            attribute(_FIRST, name, _plain(value))
            for name, value in resource.attributes.items()
        )
        named = constant_text(_FIRST, scope.name)
        versioned = constant_text(_SECOND, scope.version or "")
        self._resource = nested(_FIRST, attributes) + constant_text(
            _THIRD, resource.schema_url
        )
        self._scope = nested(_FIRST, named + versioned) + constant_text(
            _THIRD, scope.schema_url or ""
        )

    def wrap(self, spans: Iterable[bytes]) -> bytes:
        """Returns the encoded request; each span is encoded by `encode_trace`."""
        scoped = self._scope + b"".join(nested(_SECOND, span) for span in spans)
        return nested(_FIRST, self._resource + nested(_SECOND, scoped))


def _plain(value: object) -> AttributeValue:
    """Converts any value that the SDK allows in a resource, sequences included."""
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return str(value)
