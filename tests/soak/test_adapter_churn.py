"""Adapters come, go and change under load, for as long as one likes.

`make soak ARGS='tests/soak/test_adapter_churn.py -s --soak-minutes 60'`
"""

import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from transformers import AutoModelForCausalLM

from hookline_demo_model import folder
from hookline_faults.hostile.memory import MemoryCurve
from hookline_testing.adapters import make_adapter, shapes_of
from hookline_testing.server_process import Server, serving

CONTENTS = ("red", "green", "blue")
NAMES = ("sql", "legal", "poems", "code", "mail")
CHANGES_A_MINUTE = 100
CLIENTS = 4
PROMPT = "def read_lines(path, encoding, errors):\n    # " + "opens the file and " * 8
TOKENS = 12
SETTLED_SECONDS = 300.0
"""Memory may still grow before."""
ALLOWED_MB_A_MINUTE = 0.1


@dataclass
class Names:
    """What each name has meant, and when.

    Attributes:
        past: By name, pairs of a time and the content from then on; None for none.
        changing: Names whose content is being changed.
    """

    past: dict[str, list[tuple[float, str | None]]] = field(default_factory=dict)
    changing: set[str] = field(default_factory=set)

    def note(self, name: str, content: str | None) -> None:
        self.past.setdefault(name, []).append((time.monotonic(), content))

    def now(self, name: str) -> str | None:
        return self.past[name][-1][1] if name in self.past else None

    def meant(self, name: str, since: float) -> set[str | None]:
        """Returns all that a name has meant since a time."""
        found: set[str | None] = set()
        for at, content in reversed(self.past.get(name, [(0.0, None)])):
            found.add(content)
            if at <= since:
                break
        else:
            found.add(None)
        return found


@dataclass
class Churn:
    """Changes adapters of a server, and asks for them.

    Attributes:
        expected: Text by content; that of None is the base model's.
        counts: What has happened.
        wrong: Texts and errors that should not have come.
    """

    session: aiohttp.ClientSession
    names: Names = field(default_factory=Names)
    expected: dict[str | None, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def post(self, path: str, body: object) -> tuple[int, str]:
        async with self.session.post(path, json=body) as answer:
            return answer.status, await answer.text()

    async def text(self, model: str) -> tuple[int, str]:
        body = {
            "model": model,
            "prompt": PROMPT,
            "max_tokens": TOKENS,
            "temperature": 0,
            "ignore_eos": True,
        }
        async with self.session.post("/v1/completions", json=body) as answer:
            found = await answer.json()
            if answer.status != 200:
                return answer.status, found["error"]["message"]
            return answer.status, found["choices"][0]["text"]

    async def learn(self) -> None:
        """Asks for each content by a name of its own, cold and from the cache."""
        _, self.expected[None] = await self.text("demo")
        for content in CONTENTS:
            load = {"lora_name": f"only-{content}", "lora_path": content}
            assert (await self.post("/v1/load_lora_adapter", load))[0] == 200
            for _ in range(2):
                _, found = await self.text(f"only-{content}")
                assert self.expected.setdefault(content, found) == found
            unload = {"lora_name": f"only-{content}"}
            assert (await self.post("/v1/unload_lora_adapter", unload))[0] == 200
        assert len(set(self.expected.values())) == len(CONTENTS) + 1

    async def change(self, until: float, source: random.Random) -> None:
        """Loads, unloads and reloads at an even rate."""
        due = time.monotonic()
        while (due := due + 60 / CHANGES_A_MINUTE) < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            name, content = source.choice(NAMES), source.choice(CONTENTS)
            if self.names.now(name) is not None and source.randrange(3) == 0:
                mode = source.choice(("wait", "abort"))
                self.names.changing.add(name)
                status, told = await self.post(
                    "/v1/unload_lora_adapter", {"lora_name": name, "mode": mode}
                )
                self.names.note(name, None)
                self.counts["unloaded"] += 1
            else:
                body = {"lora_name": name, "lora_path": content, "load_inplace": True}
                self.names.changing.add(name)
                status, told = await self.post("/v1/load_lora_adapter", body)
                self.names.note(name, content)
                self.counts["loaded"] += 1
            self.names.changing.discard(name)
            if status != 200:
                self.wrong.append(f"{status} {told}")

    async def ask(self, until: float, source: random.Random) -> None:
        """Asks for names, and compares each text with what the name meant meanwhile."""
        while time.monotonic() < until:
            name = source.choice((*NAMES, "demo"))
            begun, is_changing = time.monotonic(), name in self.names.changing
            status, text = await self.text(name)
            is_changing = is_changing or name in self.names.changing
            if name == "demo":
                self._judge("base", status == 200 and text == self.expected[None], text)
                continue
            meant = self.names.meant(name, begun)
            if status == 200:
                texts = {self.expected[each] for each in meant if each is not None}
                # A change that has begun has perhaps been made already.
                every = {self.expected[each] for each in CONTENTS}
                is_part = any(each.startswith(text) for each in every)
                right = text in texts or (is_changing and (text in every or is_part))
                self._judge("adapter", right, f"{name}: {text!r}, meant {meant}")
            else:
                right = status in {404, 503} and (None in meant or is_changing)
                self._judge("absent", right, f"{name}: {status} {text}, meant {meant}")

    def _judge(self, kind: str, is_right: bool, what: str) -> None:
        self.counts[kind] += 1
        if not is_right:
            self.wrong.append(what)


async def churn(server: Server, curve: MemoryCurve, seconds: float) -> Churn:
    """Returns what has happened in so many seconds."""
    base = f"http://127.0.0.1:{server.port}"
    async with aiohttp.ClientSession(base) as session:
        found = Churn(session)
        await found.learn()
        until, source = time.monotonic() + seconds, random.Random(5)  # noqa: S311
        sampling = asyncio.ensure_future(curve.keep_sampling(server, 10.0))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(found.change(until, source))
            for _ in range(CLIENTS):
                tasks.create_task(found.ask(until, source))
        sampling.cancel()
        return found


@pytest.mark.soak
def test_no_answer_is_of_another_adapter_and_memory_is_level(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """
    Every text is that of an adapter that its name meant while it was generated: no
    block of a predecessor is met in the prefix cache, and nothing piles up.
    """
    seconds = 60 * float(request.config.getoption("--soak-minutes", 30.0))
    shapes = shapes_of(AutoModelForCausalLM.from_pretrained(folder()))
    for seed, content in enumerate(CONTENTS):
        make_adapter(tmp_path / content, shapes, rank=4 << seed, seed=seed)
    curve = MemoryCurve()
    argv = (
        *("--model", "demo", "--port", "0", "--dtype", "float32", "--enable-lora"),
        *("--lora-dir", str(tmp_path), "--max-loras", "2", "--max-cpu-loras", "3"),
        *("--max-model-len", "512", "--log-level", "warning"),
    )
    with serving(*argv) as server:
        found = asyncio.run(churn(server, curve, seconds))
        residue = [
            server.metric("hookline_conservation_residue", kind=kind)
            for kind in ("requests", "tokens", "blocks")
        ]
    slopes = {name: curve.slope(name, SETTLED_SECONDS) for name in curve.samples[0][1]}
    sys.stdout.write(f"{dict(found.counts)}\n{slopes} MB/min\n{curve.csv()}")
    assert not found.wrong, "\n".join(found.wrong[:50])
    assert residue == [0, 0, 0]
    if seconds > 2 * SETTLED_SECONDS:
        assert max(slopes.values()) < ALLOWED_MB_A_MINUTE
