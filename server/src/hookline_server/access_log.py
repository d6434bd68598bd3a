"""The access log: one line per request, except for frequent probes and scrapes."""

import logging

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from hookline_server.request_identity import identity_of

QUIET_PATHS = ("/metrics", "/health", "/live", "/ready", "/ping")


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
        self.logger.info(
            "%s %s %d",
            request.method,
            request.rel_url.raw_path,
            response.status,
            extra={"client": request.remote, "seconds": round(time, 4), **fields},
        )
