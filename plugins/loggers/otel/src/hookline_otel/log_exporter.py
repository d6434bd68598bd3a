"""The logger with the server's log: it takes records only if they are exported."""

from hookline.hookspecs import hookimpl
from hookline.payloads import RecordsLogged
from hookline_otel.logger import OtelLogger
from hookline_processes.logged_record import LoggedRecord

_OWN_LOGGERS = ("hookline_otel", "opentelemetry", "grpc", "requests", "urllib3")
"""Python loggers of the exporter itself and of what it uses."""

_OWN_THREADS = ("hookline-otel-", "OtelBatch", "OtelPeriodic")
"""Beginnings of the names of threads that export: this plugin's and the SDK's."""


class LogExporter(OtelLogger):
    """Exports the server's log, too; without this hook nothing collects records."""

    @hookimpl
    def records_logged(self, logged: RecordsLogged) -> None:
        if self.logs is None:
            return
        observed_at = self.clock.wall()
        for record in logged.records:
            if not is_own(record):
                self.logs.offer(record, observed_at)
        if logged.missed:
            self.logs.missed(logged.missed)


def is_own(record: LoggedRecord) -> bool:
    """Whether the exporter wrote the record; what it exports must not feed it."""
    package = record.logger.partition(".")[0]
    return package in _OWN_LOGGERS or record.thread.startswith(_OWN_THREADS)
