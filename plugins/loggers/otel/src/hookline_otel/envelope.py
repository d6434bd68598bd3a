"""The export request around spans, with resource and scope encoded once."""

from collections.abc import Iterable, Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hookline_otel.spans import encode_slowly
from hookline_otel.wire import AttributeValue, attribute, constant_text, nested

# Encoded keys of a message's fields 1, 2 and 3, each with a length.
_FIRST = b"\x0a"
_SECOND = b"\x12"
_THIRD = b"\x1a"


class Envelope:
    """Wraps spans of one resource and scope in an `ExportTraceServiceRequest`."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        named = constant_text(_FIRST, scope.name)
        versioned = constant_text(_SECOND, scope.version or "")
        self._resource = _encoded(resource)
        self._scope = nested(_FIRST, named + versioned) + constant_text(
            _THIRD, scope.schema_url or ""
        )

    def encode(self, spans: Sequence[ReadableSpan]) -> bytes:
        """Returns the encoded request."""
        return self.wrap(encode_slowly(spans))

    def wrap(self, spans: Iterable[bytes]) -> bytes:
        """Returns the request of encoded spans."""
        scoped = self._scope + b"".join(nested(_SECOND, span) for span in spans)
        return nested(_FIRST, self._resource + nested(_SECOND, scoped))


def _encoded(resource: Resource) -> bytes:
    attributes = b"".join(
        attribute(_FIRST, name, _plain(value))
        for name, value in resource.attributes.items()
    )
    schema = constant_text(_THIRD, resource.schema_url)
    return nested(_FIRST, attributes) + schema


def _plain(value: object) -> AttributeValue:
    """Converts any value that the SDK allows in a resource, sequences included."""
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return str(value)
