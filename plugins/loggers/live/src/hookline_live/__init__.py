"""Stat logger `live`: a page, `/live/`, that shows what the engines do.

It reads the rings of the flight recorders, so it takes nothing from the engines, shows
what was before it was looked at, and also an engine that hangs.
"""

import msgspec

from hookline import hookimpl
from hookline.payloads import LoggerContext
from hookline_live.logger import LiveView


@hookimpl
def create_stat_logger(context: LoggerContext) -> LiveView:
    slo = context.config.observers.slo
    return LiveView({} if slo is None else msgspec.to_builtins(slo))
