"""Settings of `hookline run-batch`: files, limits and the metrics port."""

from dataclasses import dataclass
from pathlib import Path

from hookline.config.options import check_options, option, section
from hookline.config.readers import read_size
from hookline.exceptions import ConfigError
from hookline_processes.addresses import LARGEST_PORT, read_host
from hookline_server.logs.options import LogFormat, LogLevel
from hookline_server.replies.settings import ReplySettings
from hookline_server.response_store_settings import ResponseStoreSettings
from hookline_server.settings import MEBIBYTE, ServerSettings

BATCH = "batch"
METRICS = "metrics"


def local_file(text: str) -> Path:
    """Reads the path of a file; raises `ValueError` for an address."""
    if "://" in text:
        raise ValueError(
            f"{text!r} is an address; only files of this machine are read and written"
        )
    return Path(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """Options of `hookline run-batch` that are not the engine's.

    Attributes:
        other_names: Names of the model besides the first one.
    """

    other_names: tuple[str, ...] = ()
    input_file: Path = option(
        "File with one request per line, in OpenAI's batch format.",
        group=BATCH,
        metavar="FILE",
        read=local_file,
    )
    output_file: Path = option(
        "File for the responses. It appears when all are there; meanwhile they "
        "are in the same name with .part at its end.",
        group=BATCH,
        metavar="FILE",
        read=local_file,
    )
    resume: bool = option(
        "Keep the responses of a run that was interrupted, and send the other "
        "requests.",
        default=False,
        group=BATCH,
    )
    request_timeout: float | None = option(
        "Maximum time of a request, from its start to its last token.",
        default=None,
        group=BATCH,
        metavar="SECONDS",
        above=0,
        shown_default="no limit",
    )
    max_body_bytes: int = option(
        "Maximum size of a line; longer ones are errors.",
        default=8 * MEBIBYTE,
        group=BATCH,
        metavar="SIZE",
        minimum=1,
        read=read_size,
    )
    enable_metrics: bool = option(
        "Serve /metrics while the batch runs, by the stat logger prometheus.",
        default=False,
        group=METRICS,
    )
    host: str = option(
        "Address of /metrics.",
        default="127.0.0.1",
        group=METRICS,
        metavar="ADDRESS",
        read=read_host,
    )
    port: int = option(
        "TCP port of /metrics; 0 selects a free one.",
        default=8000,
        group=METRICS,
        minimum=0,
        maximum=LARGEST_PORT,
    )
    replies: ReplySettings = section("tools and reasoning", ReplySettings)
    log_level: LogLevel = option(
        "Minimum level of log lines.", default=LogLevel.WARNING, group=BATCH
    )
    log_format: LogFormat = option(
        "Format of log lines: text, or one JSON object per line.",
        default=LogFormat.CONSOLE,
        group=BATCH,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.input_file.resolve() == self.output_file.resolve():
            raise ConfigError("output-file", "is the input file")

    @property
    def of_server(self) -> ServerSettings:
        """The settings of the server that handles the requests."""
        return ServerSettings(
            other_names=self.other_names,
            request_timeout=self.request_timeout,
            max_body_bytes=self.max_body_bytes,
            replies=self.replies,
            # Nobody could read them after the end of the batch.
            response_store=ResponseStoreSettings(max_stored_responses=0),
            metrics_host=self.host if self.enable_metrics else None,
            metrics_port=self.port if self.enable_metrics else None,
        )
