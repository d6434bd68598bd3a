"""Stat logger `request_log`: one JSON line per finished request."""

from hookline.clock import SystemClock
from hookline.hookspecs import hookimpl
from hookline.payloads import CliOptions, LoggerContext
from hookline_request_log.log_file import LogFile
from hookline_request_log.logger import LostLinesError, RequestLogger
from hookline_request_log.options import DEFAULTS, Options
from hookline_request_log.output import Output, StandardOutput

__all__ = ["LostLinesError", "RequestLogger", "add_cli_options", "create_stat_logger"]

HELP = {
    "path": "log file; - for standard output",
    "max_bytes": "file size in bytes at which the log is rotated",
    "backups": "number of rotated files to keep",
    "rotate": "when to rotate: size, or hourly for by size and hour",
    "prompts": "log token ids of prompts and outputs: true or false",
    "max_prompt_tokens": "maximum token ids per prompt, and per output, in a line",
}


@hookimpl
def add_cli_options(options: CliOptions) -> None:
    for key, default in DEFAULTS.items():
        options.add(key, help=HELP[key], default=default)


@hookimpl
def create_stat_logger(context: LoggerContext) -> RequestLogger:
    options = Options.read(context)
    clock = SystemClock()
    output: Output = StandardOutput()
    if options.path is not None:
        output = LogFile(options.path, options.rotation, clock)
    return RequestLogger(
        output,
        clock,
        model=context.config.model.served_name,
        max_prompt_tokens=options.max_prompt_tokens,
    )
