"""Why an instance gave no answer, or not all of one."""


class CannotConnectError(OSError):
    """There is no connection, so that the request was not sent."""


class NotHttpError(ConnectionError):
    """What the instance sent is no answer."""


class ClosedError(ConnectionError):
    """The instance closed the connection too early."""


class SilentError(TimeoutError):
    """Nothing came in time."""


class NoConnectionInTimeError(CannotConnectError, TimeoutError):
    """Connecting took too long."""
