"""The banner of `hookline serve`."""

import json
import shlex
from collections.abc import Iterable

from aiohttp import web

from hookline import __version__
from hookline.sampling_values import SamplingDefaults
from hookline_server.auth.key import Scope
from hookline_server.auth.key_ring import KEY_RING
from hookline_server.context import ENGINE, SETTINGS
from hookline_server.handlers import missing_metrics
from hookline_server.listening import UNIX
from hookline_server.pages import PAGES

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104


def banner(app: web.Application, *, root: str, pages_root: str, seconds: float) -> str:
    """Returns the lines printed when the server is ready: URLs, model, an example."""
    facts = app[ENGINE].facts
    scheme, _, of_socket = root.partition(UNIX)
    if of_socket:
        root = f"{scheme}://localhost"
        pages_root = root if UNIX in pages_root else pages_root
    shape = facts.model
    model = f"{shape.architecture}, {shape.dtype}, context of {shape.max_model_len}"
    lines = [
        f"Hookline {__version__} serves {facts.model_name} ({model} tokens)",
        *([f"  socket   {of_socket}"] if of_socket else []),
        f"  API      {root}/v1",
        *_pages(app, pages_root),
        f"  health   {root}/health",
        *_sampling(shape.sampling),
        *([f"  computed by {facts.model.kernels}"] if facts.model.kernels else []),
        f"  ready in {seconds:.1f} s; try:",
        f"  {_curl(app, root=root, of_socket=of_socket)}",
    ]
    return "\n".join(lines)


def _sampling(defaults: SamplingDefaults) -> Iterable[str]:
    if defaults.values:
        found = ", ".join(f"{name} {each}" for name, each in defaults.values.items())
        yield f"  sampling {found} where requests are silent ({defaults.source})"


def _pages(app: web.Application, root: str) -> Iterable[str]:
    paths = app[PAGES].paths
    folders = tuple(path for path in paths if path.endswith("/") and path != "/")
    for path in paths:
        if path in folders or not path.startswith(folders):  # not a part of a page
            yield f"  {path.strip('/'):<8} {root}{path}"
    if not missing_metrics.is_served(app):
        yield f"  metrics  not served; {missing_metrics.ADVICE}"
    if app[SETTINGS].metrics_port is not None:
        yield f"  probes   {root}/health"


def _curl(app: web.Application, *, root: str, of_socket: str) -> str:
    for everywhere, here in EVERYWHERE.items():
        root = root.replace(everywhere, here)
    body = {
        "model": app[ENGINE].facts.model_name,
        "prompt": "def read_lines(path):",
        "max_tokens": 64,
        "temperature": 0,
    }
    key = " -H 'Authorization: Bearer …'" if app[KEY_RING].guards(Scope.SERVE) else ""
    place = f"--unix-socket {shlex.quote(of_socket)} " if of_socket else ""
    return (
        f"curl {place}{root}/v1/completions -H 'Content-Type: application/json'{key} "
        f"-d {shlex.quote(json.dumps(body))}"
    )
