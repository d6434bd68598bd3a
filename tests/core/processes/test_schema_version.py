"""Messages between processes do not change without their version."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import partial

import msgspec
import pytest

from hookline.engine.commands import SCHEMA_VERSION
from hookline.frozen import plain
from hookline_cluster.clients.messages import ToClient, ToEngine, ToSecondaryClient
from hookline_cluster.machines.link_messages import ToHead, ToRemoteEngine
from hookline_observer.messages import Begin, Begun, ToFrontEnd, ToObserver

DIGESTS = {67: "b0fc394211319b8b3570d9ce253e2be20f235f871e7ab922083cf2072b962936"}
"""SHA-256 of the schemas of all messages, by schema version; modules are not in it."""


def without_prose(schema: object) -> object:
    """The schema without docstrings, which may change freely."""
    if isinstance(schema, dict):
        return {
            key: without_prose(value)
            for key, value in schema.items()
            if key != "description" or isinstance(value, dict)
        }
    if isinstance(schema, list):
        return [without_prose(value) for value in schema]
    return schema


def without_modules(schemas: Iterable[object], components: Mapping[str, object]) -> str:
    """The schemas as JSON, whichever modules the messages are in."""
    named = sorted(
        (name.rpartition(".")[2], json.dumps(without_prose(schema), sort_keys=True))
        for name, schema in components.items()
    )
    text = json.dumps([without_prose(list(schemas)), named], sort_keys=True)
    return re.sub(r"(?<=/\$defs/)[\w.]+\.", "", text)


def test_messages_change_only_with_the_schema_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A changed message needs a new SCHEMA_VERSION and digest.
    """
    # Schemas show defaults, and msgspec takes no hook for those that are frozen maps.
    encode = partial(msgspec.to_builtins, enc_hook=plain)
    monkeypatch.setattr("msgspec._json_schema.to_builtins", encode)
    schemas, components = msgspec.json.schema_components(
        [
            ToEngine,
            ToClient,
            ToSecondaryClient,
            ToObserver,
            ToFrontEnd,
            Begin,
            Begun,
            ToRemoteEngine,
            ToHead,
        ],
        schema_hook=lambda kind: {"title": kind.__qualname__},
    )
    text = without_modules(schemas, components)

    digest = hashlib.sha256(text.encode()).hexdigest()

    assert digest == DIGESTS[SCHEMA_VERSION]
