"""The headers of the proxy's requests to instances."""

from aiohttp import web

from hookline_gateway.upstreams.headers import ID, OWN_OF_REQUESTS, Headers, passed
from hookline_server.auth.permissions import ROUTER_KEY
from hookline_server.request_identity import identity_of

_OWN = OWN_OF_REQUESTS | {ROUTER_KEY.lower()}


def request_headers(request: web.Request, instance_key: str | None) -> Headers:
    """Returns the headers for an instance: the client's, and the request's id.

    Authorization and trace headers are among them. The proxy's own key
    stands beside the client's, whose tenant and limits count.
    """
    headers = passed(request.headers, _OWN)
    headers.append((ID, identity_of(request).request_id))
    if instance_key is not None:
        headers.append((ROUTER_KEY, instance_key))
    return headers
