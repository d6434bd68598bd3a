"""One line a request in the log, and none for those that come by the second."""

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from hookline_server.request_identity import request_id

QUIET_PATHS = ("/metrics", "/health")


class QuietAccessLogger(AbstractAccessLogger):
    """Leaves out probes and scrapes."""

    def log(
        self, request: web.BaseRequest, response: web.StreamResponse, time: float
    ) -> None:
        """Writes the line of one answered request."""
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
