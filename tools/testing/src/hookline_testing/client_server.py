"""The server that public clients are tested against."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hookline.model_description import find_folder
from hookline_testing.plugin_site import PluginSite
from hookline_testing.scripted_replies import TEMPLATE
from hookline_testing.server_process import serving

KEY, NARROW_KEY = "sk-clients", "sk-narrow"
"""Two API keys; the second allows one request at a time."""

_PROCESSOR = """
from hookline_testing.scripted_replies import ScriptedReplies
"""
_KEYS = {
    "keys": [
        {"name": "clients", "key": KEY},
        {"name": "narrow", "key": NARROW_KEY, "limits": {"concurrent_requests": 1}},
    ]
}


@contextmanager
def client_server(folder: Path) -> Iterator[str]:
    """Serves the demo model, with tools, reasoning, embeddings and keys.

    Its chat template shows tools, and its replies follow `scripted_replies`. Yields the
    address, without a path.

    Args:
        folder: An empty folder for the model and the keys.
    """
    model, site = _model(folder / "model"), folder / "site"
    site.mkdir()
    PluginSite(site).install(
        "scripted_replies",
        _PROCESSOR,
        group="hookline.logits_processors",
        attribute="ScriptedReplies",
    )
    keys = folder / "keys.json"
    keys.write_text(json.dumps(_KEYS), "utf-8")
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    with serving(
        "--port=0",
        f"--model={model}",
        "--served-model-name=demo",
        "--convert=embed",
        "--tool-call-parser=hermes",
        "--reasoning-parser=qwen3",
        "--logits-processor=scripted_replies",
        f"--api-keys={keys}",
        environment={"PYTHONPATH": path},
    ) as server:
        yield f"http://127.0.0.1:{server.port}"


def _model(folder: Path) -> Path:
    """Makes a folder of the demo model with another chat template."""
    shutil.copytree(find_folder("demo"), folder, ignore=_without_folders)
    (folder / "chat_template.jinja").write_text(TEMPLATE, "utf-8")
    return folder


def _without_folders(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_dir()]
