"""`Expect: 100-continue`: confirmed when the body is about to be read, not before.

aiohttp confirms as soon as the route is known, so that clients without a key would send
bodies in vain.
"""

from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from hookline_server.request_identity import identity_of

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

EXPECTED: web.RequestKey[str] = web.RequestKey("hookline_expected", str)
"""The header's value, in lower case."""


def without_expectation(request: web.BaseRequest) -> web.BaseRequest:
    """Returns the request without its header `Expect`, which `confirm` handles later.

    Nearly all requests have none and are returned unchanged.
    """
    expected = request.headers.get("Expect")
    if expected is None or not isinstance(request, web.Request):
        return request
    identity_of(request)  # the copy shall have the same
    headers = CIMultiDict(request.headers)
    headers.popall("Expect")
    without = request.clone(headers=headers)
    if request.version >= HttpVersion11:  # earlier ones do not know it
        without[EXPECTED] = expected.lower()
    return without


async def confirm(request: web.Request) -> None:
    """Asks the client for the body, for which it waits.

    Raises:
        HTTPExpectationFailed: The client expects something else.
        ConnectionError: The client has left.
    """
    if request.pop(EXPECTED) != "100-continue":
        raise web.HTTPExpectationFailed
    await request.writer.write(CONTINUE)
    # These bytes are not part of the response, which may still change.
    request.writer.output_size = 0
