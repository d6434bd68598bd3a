"""The server that clients attack, and what they count."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field

from hookline_faults.fuzzing.case import Header, request_bytes

MOST_SECONDS = 90.0
"""A hostile client gives up an exchange after this time."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server under attack.

    Attributes:
        host: Its address.
        port: Its port.
        key: A valid API key.
        sockets: Addresses of its Unix sockets, as ZMQ writes them.
        counts: How exchanges ended, by kind of client.
    """

    host: str
    port: int
    key: str
    sockets: tuple[str, ...] = ()
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def note(self, kind: str, outcome: str) -> None:
        """Counts an exchange."""
        self.counts.setdefault(kind, Counter())[outcome] += 1

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Opens a connection."""
        return await asyncio.open_connection(self.host, self.port)

    def post(
        self, path: str, body: bytes, *headers: Header, key: str | None = None
    ) -> bytes:
        """Returns the bytes of a request with a key."""
        bearer = f"Bearer {self.key if key is None else key}".encode()
        return request_bytes(
            "POST", path.encode(), body, [(b"Authorization", bearer), *headers]
        )


def completion(source: random.Random, **fields: object) -> bytes:
    """Returns the body of a completion of a few random tokens."""
    prompt = [source.randrange(10, 4000) for _ in range(8)]
    body = {"model": "demo", "prompt": prompt, "max_tokens": 16} | fields
    return json.dumps(body).encode()
