"""Where log lines go."""

import logging
import sys


def set_up_log(level: str) -> None:
    """Logs to standard error, from this level on."""
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
