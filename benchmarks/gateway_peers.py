"""Other gateways that can stand where ours does; nothing is installed here.

LiteLLM's proxy: `pip install 'litellm[proxy]'` in an environment of its own, whose
`bin/litellm` is named. Portkey's: `npm install @portkey-ai/gateway` in a folder of its
own, which is named.
"""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

LITELLM = """\
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "{url}/v1", api_key: x}}
"""

PORTKEYS_SERVER = "node_modules/@portkey-ai/gateway/build/start-server.js"

# Its HTTP server replaces Node's Response by one whose headers Portkey cannot change in
# a stream: it then answers 500. This keeps Node's.
KEEP_RESPONSE = "data:text/javascript," + quote(
    "const define = Object.defineProperty;"
    "Object.defineProperty = (on, name, what) =>"
    "  on === globalThis && name === 'Response' ? on : define(on, name, what);"
)


class Peer(NamedTuple):
    """A gateway's command, and what its clients send besides."""

    command: tuple[str, ...]
    environment: dict[str, str]
    headers: tuple[str, ...] = ()


def litellm(program: Path, folder: Path, url: str, port: int) -> Peer:
    """LiteLLM's proxy, with a file in `folder` that names the upstream."""
    config = folder / "litellm.yaml"
    config.write_text(LITELLM.format(url=url), "utf-8")
    options = ("--host", "127.0.0.1", "--port", str(port), "--config", str(config))
    environment = {
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
    }
    return Peer((str(program), *options), environment)


def portkey(folder: Path, url: str, port: int) -> Peer:
    """Portkey's gateway; its requests name the upstream."""
    server = str(folder / PORTKEYS_SERVER)
    command = ("node", "--import", KEEP_RESPONSE, server, f"--port={port}")
    headers = (
        "x-portkey-provider: openai",
        f"x-portkey-custom-host: {url}/v1",
        "Authorization: Bearer x",
    )
    return Peer((*command, "--headless"), {}, headers)
