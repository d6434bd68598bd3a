"""Counts what the server leaves out of requests, by API and kind."""

from collections import Counter

from aiohttp import web

from hookline_metrics.front_end_parts import IgnoredStats
from hookline_server.dialects import COMPLETIONS_PATH, MESSAGES_PATH, RESPONSES_PATH
from hookline_server.protocol.ignored import Ignored
from hookline_server.request_identity import identity_of


class IgnoredCounts:
    """What a server left out of all requests."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def of(self, api: str) -> Ignored:
        """Returns the empty note of a request of this API."""

        def count(kind: str) -> None:
            self._counts[api, kind] += 1

        return Ignored(count)

    def stats(self) -> IgnoredStats:
        """Totals since the start."""
        return IgnoredStats(
            elements=tuple(
                (api, kind, count) for (api, kind), count in self._counts.items()
            )
        )


IGNORED: web.AppKey[IgnoredCounts] = web.AppKey("hookline_ignored", IgnoredCounts)


def ignored_of(request: web.Request) -> Ignored:
    """Returns a request's note, of which its response names the kinds."""
    identity = identity_of(request)
    if identity.ignored is None:
        identity.ignored = request.app[IGNORED].of(_api(request.path))
    return identity.ignored


def _api(path: str) -> str:
    if path.startswith(MESSAGES_PATH):
        return "messages"
    if path == COMPLETIONS_PATH:
        return "completions"
    return "responses" if path.startswith(RESPONSES_PATH) else "chat"
