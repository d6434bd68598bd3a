"""The resource and the instrumentation scope of spans and metrics."""

import uuid
from importlib.metadata import version

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hookline import __version__
from hookline_otel.attributes import SCHEMA_URL
from hookline_otel.options import Semconv

DEFAULT_NAME = "hookline"


def make_resource(service_name: str | None) -> Resource:
    """Returns the resource; `service_name` overrides the environment variables."""
    found = Resource.create()
    own = Resource(
        {
            "service.version": __version__,
            "service.instance.id": str(uuid.uuid4()),
        }
    )
    is_nameless = str(found.attributes["service.name"]).startswith("unknown_service")
    name = service_name or (DEFAULT_NAME if is_nameless else None)
    named = Resource({"service.name": name}) if name else Resource.get_empty()
    return own.merge(found).merge(named)


def make_scope(semconv: Semconv) -> InstrumentationScope:
    """Returns the plugin's scope, with the schema that its spans follow."""
    return InstrumentationScope(
        "hookline_otel",
        version("hookline-otel"),
        SCHEMA_URL if semconv.has_genai else "",
    )
