"""The access log: one line per request, except for frequent probes and scrapes."""

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from hookline_server.request_identity import request_id

QUIET_PATHS = ("/metrics", "/health")


class QuietAccessLogger(AbstractAccessLogger):
    """Logs requests, but no probes and scrapes."""

    def log(
        self, request: web.BaseRequest, response: web.StreamResponse, time: float
    ) -> None:
        """Logs one answered request."""
        if request.path.startswith(QUIET_PATHS):
            return
        identity = request_id(request) if isinstance(request, web.Request) else "-"
        self.logger.info(
            "%s %s %s %d %.3fs id=%s",
            request.remote,
            request.method,
            request.path,
            response.status,
            time,
            identity,
        )
