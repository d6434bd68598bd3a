"""Chat templates that loop or explode: only their own requests fail."""

import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hookline.model_description import find_folder
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

LONGEST_WAIT_SECONDS = 15.0
"""For another client's answer, or for the end of the server; it once was for ever."""
SMALL = {"model": "m", "prompt": "def main(", "max_tokens": 4}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
LOOPS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
    "{% endfor %}{% endfor %}{% endfor %}"
)
TEMPLATE = (
    "{% if messages[0]['content'] == 'loops' %}" + LOOPS + "{% endif %}"
    "{% if messages[0]['content'] == 'explodes' %}"
    "{% for a in range(99999) %}{{ 'x' * 99999 }}{% endfor %}{% endif %}"
    "{% if messages[0]['content'] == 'bursts' %}"
    "{{ (messages[0]['content'] * 999999999) | length }}{% endif %}"
    "{{ messages[0]['content'] }}"
)


def chat(content: str) -> dict[str, Any]:
    return {**CHAT, "messages": [{"role": "user", "content": content}]}


HOSTILE = {
    "it loops": LOOPS,
    "its output explodes": "{% for a in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
    "a constant explodes": "{{ 'x' * 9999999999 }}",
    "more loops than Python compiles": "{% for a in [1] %}" * 50 + "{% endfor %}" * 50,
    "nested without end": "{{ " + "(" * 30_000 + ")" * 30_000 + " }}",
    "other files": "{% include '/etc/passwd' %}",
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
}


@contextmanager
def serving_template(folder: Path, *options: str) -> Iterator[Server]:
    """A server without a model, whose chat template is ours."""
    shutil.copytree(
        find_folder("demo"),
        folder,
        ignore=shutil.ignore_patterns("*.safetensors", "medusa", "eagle"),
    )
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    with serving(
        "--port=0",
        f"--model={folder}",
        "--served-model-name=m",
        "--executor=simulated",
        *options,
    ) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving_template(tmp_path_factory.mktemp("models") / "m") as running:
        assert running.post("/v1/chat/completions", CHAT)[0] == 200
        yield running


def test_a_template_that_loops_holds_up_nobody(server: Server) -> None:
    """Its request ends with one error; completions and chats of others go on."""
    answers: list[tuple[int, Any]] = []

    def ask() -> None:
        answers.append(server.post("/v1/chat/completions", chat("loops")))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    time.sleep(0.2)
    stopwatch = server.stopwatch()
    for _ in range(5):
        status, _ = server.post("/v1/completions", SMALL, timeout_seconds=60)
        assert status == 200
        assert server.get("/health")[0] == 200
    waited = stopwatch.took()
    thread.join(60)

    assert waited.own_seconds < LONGEST_WAIT_SECONDS
    [(status, answer)] = answers
    assert status == 400
    assert "takes too much time" in answer["error"]["message"]
    assert server.post("/v1/chat/completions", CHAT)[0] == 200
    server.wait_for(
        "hookline_text_process_restarts_total", 1, queue="chat", cause="exceeded"
    )


@pytest.mark.parametrize("content", ["explodes", "bursts"])
def test_output_that_explodes_is_refused(server: Server, content: str) -> None:
    """The error is the client's, nobody's memory grows, and others go on."""
    before = server.resident_mb()

    status, answer = server.post("/v1/chat/completions", chat(content))

    assert status == 400, answer
    assert server.resident_mb() < before + 50
    assert server.post("/v1/chat/completions", CHAT)[0] == 200


def test_a_client_cannot_choose_a_template(server: Server) -> None:
    """Neither the template nor its variables; `tokenize` once was one of them."""
    for field, value in (
        ("chat_template", "{{ 1 }}"),
        ("chat_template_kwargs", {"tokenize": True}),
    ):
        status, answer = server.post("/v1/chat/completions", {**CHAT, field: value})

        assert status == 400
        assert field in answer["error"]["message"]


def test_trusted_templates_have_the_same_limits(tmp_path: Path) -> None:
    """Each hostile one is its request's error, and the next chat is served."""
    with serving_template(tmp_path / "m", "--trust-request-chat-template") as server:
        for name, template in HOSTILE.items():
            body = {**CHAT, "chat_template": template}
            status, answer = server.post("/v1/chat/completions", body)

            assert status == 400, (name, answer)
            assert server.post("/v1/chat/completions", CHAT)[0] == 200
        status, answer = server.post(
            "/tokenize", {**CHAT, "chat_template": "{{ messages[0].content }}!"}
        )
        assert (status, answer["count"] > 0) == (200, True)


def test_a_server_ends_while_a_template_loops(tmp_path: Path) -> None:
    """SIGTERM ends it in time, and its text processes with it."""
    with serving_template(tmp_path / "m") as server:
        assert server.post("/v1/chat/completions", CHAT)[0] == 200

        def ask() -> None:
            with suppress(OSError):
                server.post("/v1/chat/completions", chat("loops"))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        time.sleep(0.3)

        stopwatch = server.stopwatch()
        assert server.end(signal.SIGTERM) == 0

        assert stopwatch.own_seconds < 2 * LONGEST_WAIT_SECONDS
        thread.join(10)
