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
    "path": "file that the lines go to; - for standard output",
    "max_bytes": "size beyond which a new file is begun",
    "backups": "how many older files are kept",
    "rotate": "when a new file is begun: by size, or also hourly",
    "prompts": "write the token ids of prompts and outputs: true or false",
    "max_prompt_tokens": "most token ids of a prompt, and of an output, in a line",
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
