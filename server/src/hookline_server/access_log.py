"""The access log: one line per request, except for frequent probes and scrapes."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from hookline_server.logs.config_file import LogSettings
from hookline_server.logs.set_up import ACCESS_LOGGER
from hookline_server.request_identity import identity_of

MAPPED = "::ffff:"
"""What stands before an address of IPv4 on a socket of IPv6."""

QUIET_PATHS = ("/metrics", "/health", "/live", "/ready", "/ping")


@contextmanager
def access_log(settings: LogSettings) -> Iterator[None]:
    """Has this process log requests as the settings say, until the block ends."""
    logger = logging.getLogger(ACCESS_LOGGER)
    paths = frozenset(settings.disable_access_log_for_endpoints)

    def is_wanted(record: logging.LogRecord) -> bool:
        # Those of API servers come without arguments, and were wanted there.
        return not (record.args and _path(record.args) in paths)

    before, logger.disabled = logger.disabled, settings.disable_uvicorn_access_log
    logger.addFilter(is_wanted)
    try:
        yield
    finally:
        logger.disabled = before
        logger.removeFilter(is_wanted)


def _path(arguments: object) -> object:
    """Returns the path in a record of `QuietAccessLogger`."""
    return arguments[1] if isinstance(arguments, tuple) else None


class QuietAccessLogger(AbstractAccessLogger):
    """Logs requests, but no probes and scrapes."""

    @property
    def enabled(self) -> bool:
        """Whether lines of this level are wanted at all."""
        return self.logger.isEnabledFor(logging.INFO)

    def log(
        self, request: web.BaseRequest, response: web.StreamResponse, time: float
    ) -> None:
        """Logs one answered request."""
        if request.path.startswith(QUIET_PATHS):
            return
        fields = {}
        if isinstance(request, web.Request):
            fields = identity_of(request).log_fields
        client = (remote := request.remote) and remote.removeprefix(MAPPED)
        self.logger.info(
            "%s %s %d",
            request.method,
            request.rel_url.raw_path,
            response.status,
            extra={"client": client, "seconds": round(time, 4), **fields},
        )
