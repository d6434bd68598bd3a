"""The HTTP request that a log line belongs to."""

import logging

from hookline_server.request_identity import CURRENT


def identify(record: logging.LogRecord) -> bool:
    """Adds the request's id and trace to a record; a filter that lets all through."""
    identity = CURRENT.get()
    if identity is not None and not hasattr(record, "request_id"):
        for name, value in identity.log_fields.items():
            setattr(record, name, value)
    return True
