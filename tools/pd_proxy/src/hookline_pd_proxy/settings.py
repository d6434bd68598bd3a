"""What a route is told when it starts."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hookline.exceptions import ConfigError
from hookline_server.settings import LOG_LEVELS, MEBIBYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """Options of `hookline route`.

    Attributes:
        host: Address to listen on.
        port: TCP port; 0 lets the system choose one.
        prefill: URLs of the instances that compute prompts; there may be none.
        decode: URLs of those that compute the answers; at least one.
        connect_timeout: Seconds for a connection to an instance.
        prefill_timeout: Seconds for a prompt, all attempts together; then the decode
            instance computes it.
        request_timeout: Seconds for a request, all attempts together.
        retries: So many more instances are tried, in either phase, at most.
        poll_seconds: Time between two looks at an instance.
        prefill_min_characters: Shorter prompts go to a decode instance at once.
        max_body_bytes: Larger request bodies are refused with 413.
        shutdown_timeout: Seconds that running requests get after SIGTERM.
        log_level: Of the route's log lines.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    prefill: list[str] = field(default_factory=list)
    decode: list[str] = field(default_factory=list)
    connect_timeout: float = 2.0
    prefill_timeout: float = 60.0
    request_timeout: float = 600.0
    retries: int = 2
    poll_seconds: float = 1.0
    prefill_min_characters: int = 0
    max_body_bytes: int = 8 * MEBIBYTE
    shutdown_timeout: float = 30.0
    log_level: str = "info"

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError("port", f"must be 0 to 65535, not {self.port}")
        if not self.decode:
            raise ConfigError("decode", "must name at least one instance")
        _check_urls("prefill", self.prefill)
        _check_urls("decode", self.decode)
        for option, seconds in (
            ("connect-timeout", self.connect_timeout),
            ("prefill-timeout", self.prefill_timeout),
            ("request-timeout", self.request_timeout),
            ("poll-seconds", self.poll_seconds),
        ):
            if not 0 < seconds < float("inf"):
                raise ConfigError(option, "must be a number of seconds above 0")
        if not 0 <= self.shutdown_timeout < float("inf"):
            raise ConfigError("shutdown-timeout", "must be a number of seconds >= 0")
        for option, count in (
            ("retries", self.retries),
            ("prefill-min-characters", self.prefill_min_characters),
        ):
            if count < 0:
                raise ConfigError(option, "must not be below 0")
        if self.max_body_bytes < 1:
            raise ConfigError("max-body-bytes", "must be at least 1")
        if self.log_level not in LOG_LEVELS:
            raise ConfigError("log-level", f"must be one of {', '.join(LOG_LEVELS)}")


def _check_urls(option: str, urls: list[str]) -> None:
    for url in urls:
        if not _is_address(url):
            raise ConfigError(option, f"{url!r} is not a URL such as http://HOST:PORT")
    if len(set(urls)) != len(urls):
        raise ConfigError(option, "names an instance twice")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and not (parts.query or parts.fragment or parts.username)
    )
