"""The export requests around spans and log records, with the resource encoded once."""

from collections.abc import Iterable

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hookline_otel.log_item import ScopedRecord
from hookline_otel.wire import AttributeValue, attribute, constant_text, nested

# Encoded keys of a message's fields 1, 2 and 3, each with a length. Requests for spans
# and for log records have the same fields.
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

    def wrap(self, spans: Iterable[bytes]) -> bytes:
        """Returns the encoded request; each span is encoded by `encode_trace`."""
        scoped = self._scope + b"".join(nested(_SECOND, span) for span in spans)
        return nested(_FIRST, self._resource + nested(_SECOND, scoped))


class LogEnvelope:
    """Wraps log records of one resource in an `ExportLogsServiceRequest`."""

    def __init__(self, resource: Resource) -> None:
        self._resource = _encoded(resource)

    def wrap(self, records: Iterable[ScopedRecord]) -> bytes:
        """Returns the encoded request, with a scope for each Python logger."""
        by_logger: dict[str, list[bytes]] = {}
        for logger, record in records:
            by_logger.setdefault(logger, []).append(nested(_SECOND, record))
        scopes = (
            nested(_SECOND, nested(_FIRST, _scope(name)) + b"".join(encoded))
            for name, encoded in by_logger.items()
        )
        return nested(_FIRST, self._resource + b"".join(scopes))


def _scope(logger: str) -> bytes:
    return nested(_FIRST, logger.encode())


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
