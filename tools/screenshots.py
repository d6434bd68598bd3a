"""Makes the README's pictures: `python tools/screenshots.py`, in two minutes.

A server of the demo model is under load for a little more than the minute that the live
view shows; then Chromium takes a picture of it, and of what `hookline why` answers.
"""

import asyncio
import html
import random
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import aiohttp

from hookline_testing.chromium import Page, browsing
from hookline_testing.server_process import serving

IMAGES = Path(__file__).parents[1] / "docs" / "images"
OPTIONS = (
    *("--model", "demo", "--port", "0", "--stat-logger", "live"),
    *("--tenant-header", "X-Tenant", "--slo", "ttft=2.5,e2e=15"),
    *("--max-num-seqs", "16", "--max-num-batched-tokens", "512"),
    *("--num-kv-blocks", "500"),
    *("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}'),
)
LOAD_SECONDS = 75.0
CLIENTS = 24
TENANTS = {"chat": (10, 60, 300), "search": (30, 60), "eval": (10, 30), "batch": (900,)}
WORDS = ("def", "read", "lines", "path", "import", "class", "return", "self", "for")
TERMINAL = """
<meta charset="utf-8"><title>why</title>
<style>
body {{ margin: 0; background: #f6f7f8; color: #1b2127 }}
pre {{ margin: 16px; padding: 14px 20px; background: #fff; border: 1px solid #d9dde1;
  border-radius: 8px; font: 13px/1.65 "DejaVu Sans Mono", monospace }}
div {{ min-height: 1em; white-space: pre-wrap; overflow-wrap: anywhere }}
.part {{ padding-left: 32ch; text-indent: -32ch }}
b {{ color: #0072b2 }}
</style>
<pre>{}</pre>
"""


def terminal(commands: list[tuple[str, str]]) -> str:
    """Returns a page with commands and what they have written."""
    lines: list[str] = []
    for command, told in commands:
        lines.append(f"<div><b>$ {html.escape(command)}</b></div>")
        for line in told.splitlines():
            kind = ' class="part"' if line.startswith(" ") else ""
            lines.append(f"<div{kind}>{html.escape(line)}</div>")
        lines.append("<div></div>")
    return TERMINAL.format("".join(lines[:-1]))


async def load(session: aiohttp.ClientSession) -> None:
    """Asks as many clients do, some of whom share the begin of their prompts."""
    source = random.Random(38)  # noqa: S311 - no secret
    begins = {name: source.choices(WORDS, k=120) for name in TENANTS}
    numbers = iter(range(1, 1_000_000))

    async def client(tenant: str) -> None:
        while True:
            words = source.choices(WORDS, k=source.choice(TENANTS[tenant]))
            shared = begins[tenant] if source.random() < 0.5 else []
            answer = await session.post(
                "/v1/completions",
                json={
                    "model": "demo",
                    "prompt": " ".join([*shared, *words]),
                    "max_tokens": source.choice((20, 60, 120, 200)),
                    "temperature": 0,
                    "ignore_eos": True,
                },
                headers={"X-Request-Id": f"{tenant}-{next(numbers)}"}
                | {"X-Tenant": tenant},
            )
            await answer.read()
            await asyncio.sleep(0.3 * source.random())

    names = [source.choice((*TENANTS, "chat")) for _ in range(CLIENTS)]
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(client(name))


async def slowest(session: aiohttp.ClientSession) -> str:
    """Returns the slowest of the requests that ended in the last minute."""
    answer = await session.get("/live/moment")
    (engine,) = (await answer.json())["engines"]
    ended = [row for row in engine["rows"] if row.get("end") and row["output"] < 100]

    def took(row: dict[str, Any]) -> int:
        return int(row["phases"][-1][1] - row["phases"][0][1])

    return str(max(ended, key=took)["client"])


async def why(*argv: str) -> str:
    """Returns what `hookline why` answers."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("hookline")),
        "why",
        *argv,
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await process.communicate()
    return answer.decode()


def packed(png: bytes) -> bytes:
    """Returns a picture of 24 bits a pixel without PNG's filters, which is smaller."""
    chunks: list[tuple[bytes, bytes]] = []
    at = 8
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        chunks.append((kind, png[at + 8 : at + 8 + size]))
        at += 12 + size
    width, height, bits, colours = struct.unpack_from(">IIBB", chunks[0][1])
    assert (bits, colours) == (8, 2)
    data = zlib.decompress(b"".join(each for kind, each in chunks if kind == b"IDAT"))
    stride = 3 * width
    above, rows = bytearray(stride + 3), bytearray()
    for y in range(height):
        begin = y * (stride + 1)
        kind_of_row, row = data[begin], bytearray(3) + data[begin + 1 :][:stride]
        for x in range(3, stride + 3) if kind_of_row else ():
            left, up, corner = row[x - 3], above[x], above[x - 3]
            guesses = (0, left, up, (left + up) // 2, _paeth(left, up, corner))
            row[x] = (row[x] + guesses[kind_of_row]) & 255
        rows += b"\0" + row[3:]
        above = row
    plain = (chunks[0], (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b""))
    return png[:8] + b"".join(
        struct.pack(">I", len(body))
        + kind
        + body
        + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in plain
    )


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))


async def shoot(page: Page, name: str) -> None:
    picture = packed(await page.screenshot())
    (IMAGES / f"{name}.png").write_bytes(picture)
    sys.stdout.write(f"{name}.png: {len(picture)} bytes\n")


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with (
        serving(*OPTIONS, is_forked=False) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        url = f"http://127.0.0.1:{server.port}"
        profile, told = Path(folder) / "profile", Path(folder) / "why.html"
        profile.mkdir()
        async with (
            aiohttp.ClientSession(url) as session,
            browsing(profile) as page,
        ):
            loading = asyncio.create_task(load(session))
            await asyncio.sleep(LOAD_SECONDS)
            await page.media("light")
            await page.go(f"{url}/live/")
            await page.until("document.body && document.body.dataset.at")
            await asyncio.sleep(2)
            await shoot(page, "live")
            request = await slowest(session)
            commands = [
                (f"hookline why {' '.join(asked)}", await why(*asked, url))
                for asked in ((request,), ("--slowest", "3"))
            ]
            loading.cancel()
            told.write_text(terminal(commands))
            await page.go(told.as_uri())
            await page.until("document.title === 'why'")
            await shoot(page, "why")


if __name__ == "__main__":
    asyncio.run(main())
