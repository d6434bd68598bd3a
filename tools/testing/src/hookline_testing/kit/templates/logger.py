"""Stat logger `sample`: counts finished requests, and shows the number on a page."""

from hookline import hookimpl
from hookline.exceptions import ConfigError
from hookline.pages import PageRequest, PageResponse, Routes
from hookline.payloads import CliOptions, LoggerContext, RequestsFinished


class SampleLogger:
    """Counts finished requests with some output tokens."""

    def __init__(self, context: LoggerContext) -> None:
        """Raises `ConfigError` for a wrong option, which ends the start with it."""
        given = context.options.get("min-tokens", "0")
        if not given.isdecimal():
            raise ConfigError("sample-min-tokens", f"is a number, not {given!r}")
        self._least = int(given)
        self._count = 0

    @hookimpl
    def requests_finished(self, finished: RequestsFinished) -> None:
        """Runs in this logger's lane, a thread of its own, in order."""
        for done in finished.requests:
            self._count += done.output_tokens >= self._least

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        """Runs once, when the server starts."""
        routes.get("/sample", self.page)

    def page(self, request: PageRequest) -> PageResponse:
        """Runs in another thread than the hooks."""
        del request
        text = f"{self._count} requests have finished.\n"
        kind = "text/plain; charset=utf-8"
        return PageResponse(body=text.encode(), content_type=kind)


@hookimpl
def add_cli_options(options: CliOptions) -> None:
    """Declares `--sample-min-tokens`; any option that is not declared is refused."""
    options.add("min-tokens", help="Fewest output tokens that count.", default="0")


@hookimpl
def create_stat_logger(context: LoggerContext) -> SampleLogger:
    """Called once, before the model is loaded."""
    return SampleLogger(context)
