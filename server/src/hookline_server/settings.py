"""How the server listens and what it allows; nothing about the engine."""

from dataclasses import dataclass

from hookline.exceptions import ConfigError

MEBIBYTE = 1024 * 1024
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Options of `hookline serve` that are not the engine's.

    Attributes:
        host: Address to listen on.
        port: TCP port; 0 lets the system choose one.
        api_key: Where set, `/v1/*` asks for it as a bearer token.
        shutdown_timeout: Seconds that running requests get after SIGTERM.
        max_body_bytes: Larger request bodies are refused with 413.
        enable_reset_prefix_cache: Serve `/reset_prefix_cache`.
        log_level: Of the server's own log lines.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = None
    shutdown_timeout: float = 30.0
    max_body_bytes: int = 8 * MEBIBYTE
    enable_reset_prefix_cache: bool = False
    log_level: str = "info"

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError("port", f"must be 0 to 65535, not {self.port}")
        if self.api_key == "":
            raise ConfigError("api-key", "must not be empty")
        if not 0 <= self.shutdown_timeout < float("inf"):
            raise ConfigError("shutdown-timeout", "must be a number of seconds >= 0")
        if self.max_body_bytes < 1:
            raise ConfigError("max-body-bytes", "must be at least 1")
        if self.log_level not in LOG_LEVELS:
            raise ConfigError("log-level", f"must be one of {', '.join(LOG_LEVELS)}")
