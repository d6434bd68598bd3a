"""The keys of a running server: those of the options, and those of a file."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from aiohttp import web

from hookline_metrics.front_end_parts import ApiKeyStats
from hookline_server.auth.budgets import Budgets
from hookline_server.auth.key import (
    EVERY_PERMISSION,
    EVERY_SCOPE,
    ApiKey,
    KeySet,
    Scope,
    Tenant,
)
from hookline_server.auth.key_file import KeyFile, file_stamp, read_keys
from hookline_server.auth.key_table import KeyTable, digest_of
from hookline_server.background import in_background

RELOAD_SECONDS = 1.0
"""Time between two looks at the file."""

REPEAT_SECONDS = 60.0
"""Time between two log lines about a mistake in it."""

logger = logging.getLogger(__name__)

NO_TENANT = Tenant()


@dataclass(frozen=True, slots=True)
class _Mistake:
    """Why the file cannot be read.

    Attributes:
        since: When it could not be read for the first time.
        logged_at: When that was logged last.
    """

    text: str
    since: float
    logged_at: float


class KeyRing:
    """Finds keys, and follows the changes of their file.

    Attributes:
        budgets: What keys and tenants have left of their limits.
        is_open: Whether no path needs a key, because none is configured.
        tenant_header: Header with the tenants of requests whose key has none, or None.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        metrics_token: str | None = None,
        file: KeyFile | None = None,
        tenant_header: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.budgets = Budgets(clock)
        self.tenant_header = tenant_header
        self._file = file
        self._own = _own_keys(api_key, metrics_token)
        self._guarded = frozenset({Scope.METRICS} if metrics_token is not None else ())
        if api_key is not None or file is not None:
            self._guarded = EVERY_SCOPE
        self.is_open = not self._guarded
        self._stamp = None if file is None else file.stamp
        self._clock = clock
        self._mistake: _Mistake | None = None
        self._use(KeySet() if file is None else file.content)

    @property
    def may_have_limits(self) -> bool:
        """Whether there is a file, in which limits can be set at any time."""
        return self._file is not None

    def guards(self, scope: Scope) -> bool:
        """Whether paths of a scope need a key.

        An API key or a file of keys guards everything, a metrics token only the pages.
        """
        return scope in self._guarded

    def find(self, key: str) -> ApiKey | None:
        """Returns what is known about a key, or None if the key is invalid."""
        return self._table.find(key)

    def weight(self, key: ApiKey, tenant: str | None) -> float:
        """Returns the share of a request, relative to those of others.

        Args:
            key: Its key.
            tenant: Its tenant, if that is certain.
        """
        if key.weight is not None:
            return key.weight
        return self._tenants.get(tenant or "", NO_TENANT).weight

    def stats(self) -> ApiKeyStats:
        """For how long the file could not be read."""
        if (mistake := self._mistake) is None:
            return ApiKeyStats()
        return ApiKeyStats(stale_seconds=self._clock() - mistake.since)

    async def follow(self, _: web.Application) -> AsyncIterator[None]:
        """Follows the file until the application ends; for its `cleanup_ctx`."""
        if self._file is None:
            yield
            return
        async with in_background(self._follow(self._file.path)):
            yield

    async def _follow(self, path: str) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            # In a thread, because files may be on a network.
            stamp = await asyncio.to_thread(file_stamp, path)
            if stamp != self._stamp:
                self._stamp = stamp
                await self._reload(path)
            elif self._mistake is not None and (
                self._clock() >= self._mistake.logged_at + REPEAT_SECONDS
            ):
                self._complain(self._mistake)

    async def _reload(self, path: str) -> None:
        try:
            content = await asyncio.to_thread(read_keys, path)
        except ValueError as error:
            known, now = self._mistake, self._clock()
            since = now if known is None else known.since
            self._complain(_Mistake(str(error), since, now))
            return
        self._mistake = None
        self._use(content)
        level = logging.INFO if content.keys else logging.WARNING
        logger.log(level, "reloaded %d API keys from %s", len(content.keys), path)

    def _complain(self, mistake: "_Mistake") -> None:
        """Logs a mistake in the file, which stays until it is mended."""
        self._mistake = replace(mistake, logged_at=self._clock())
        logger.error(
            "the API keys stay as they were %.0f s ago, removed ones too: %s",
            self.stats().stale_seconds,
            mistake.text,
        )

    def _use(self, content: KeySet) -> None:
        keys = dict(content.keys)
        for digest, key in self._own.items():
            keys[digest] = key if digest not in keys else _both(keys[digest], key)
        self._table = KeyTable(keys)
        self._tenants = content.tenants
        self.budgets.use(content)


def _own_keys(api_key: str | None, metrics_token: str | None) -> dict[bytes, ApiKey]:
    """Returns the keys of the options; one text can be both."""
    keys: dict[bytes, ApiKey] = {}
    if metrics_token is not None:
        keys[digest_of(metrics_token)] = ApiKey(
            name="metrics-token", scopes=frozenset({Scope.METRICS})
        )
    if api_key is not None:
        # If the pages have a token, the API's clients shall not read them.
        scopes = EVERY_SCOPE - ({Scope.METRICS} if keys else set())
        digest = digest_of(api_key)
        scopes |= keys[digest].scopes if digest in keys else set()
        keys[digest] = ApiKey(
            name="api-key", scopes=scopes, permissions=EVERY_PERMISSION
        )
    return keys


def _both(listed: ApiKey, own: ApiKey) -> ApiKey:
    """Returns a key that stands in the file and is an option, too."""
    return replace(listed, scopes=listed.scopes | own.scopes)


KEY_RING: web.AppKey[KeyRing] = web.AppKey("hookline_key_ring", KeyRing)
