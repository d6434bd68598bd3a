"""A real Chromium without a window, driven over its DevTools protocol."""

import asyncio
import base64
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from hookline_testing.debian_programs import UNPACKED, find_program

PROGRAM = "chromium-headless-shell"
START_SECONDS = 90.0
ANSWER_SECONDS = 60.0
_SWITCHES = (
    *("--remote-debugging-port=0", "--no-sandbox", "--disable-gpu", "--mute-audio"),
    *("--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking"),
    *("--hide-scrollbars", "--force-color-profile=srgb", "--disable-lcd-text"),
)


class Page:
    """A page of a browser.

    Attributes:
        complaints: What the page has logged as an error, or was forbidden.
        requested: URLs that it has asked for.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        self.requested: list[str] = []

    async def open(self, *, width: int, height: int, is_phone: bool = False) -> None:
        """Makes the page, of a size in CSS pixels."""
        made = await self.call("Target.createTarget", url="about:blank")
        joined = await self.call(
            "Target.attachToTarget", targetId=made["targetId"], flatten=True
        )
        self._session = joined["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Performance"):
            await self.call(f"{domain}.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_phone,
        )

    async def go(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        """Returns the value of an expression in the page, a promise's when it is there.

        Raises:
            AssertionError: It failed.
        """
        found = await self.call(
            "Runtime.evaluate",
            expression=script,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, script: str) -> Any:
        """Waits until an expression is true, and returns it."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while not (found := await self.evaluate(script)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # another process changes it
        return found

    async def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    async def media(self, scheme: str) -> None:
        """Has the page be told of a preference for `dark` or `light`."""
        await self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    async def screenshot(self) -> bytes:
        """Returns what it shows, as a PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])

    async def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Calls a method of the protocol."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                told = json.loads(await self._socket.receive_str())
                if told.get("id") == number:
                    assert "error" not in told, told["error"]
                    result: dict[str, Any] = told["result"]
                    return result
                self._note(told.get("method", ""), told.get("params", {}))

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requested.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.complaints.append(told["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"a dialog: {told['message']}")


@asynccontextmanager
async def browsing(
    folder: Path, *, width: int = 1280, height: int = 800, is_phone: bool = False
) -> AsyncIterator[Page]:
    """Runs Chromium until the end of the block, and opens a page.

    Args:
        folder: Empty folder for its profile.
        width: Of the page.
        height: Of the page.
        is_phone: Whether the page is to think that it is on a phone.
    """
    program = find_program(PROGRAM)
    assert program is not None, "there is no Chromium"
    # Unpacked, it is in usr/lib/chromium, beside the libraries that it needs.
    is_unpacked = program.is_relative_to(UNPACKED)
    folders = program.parents[1].glob("**") if is_unpacked else ()
    libraries = os.pathsep.join(str(each) for each in folders if each.is_dir())
    started = subprocess.Popen(  # noqa: ASYNC220, S603
        [str(program), *_SWITCHES, f"--user-data-dir={folder}"],
        env={**os.environ, "LD_LIBRARY_PATH": libraries, "HOME": str(folder)},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        address = await _address(folder, started)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, max_msg_size=0) as socket,
        ):
            page = Page(socket)
            await page.open(width=width, height=height, is_phone=is_phone)
            yield page
    finally:
        started.terminate()
        await asyncio.to_thread(started.wait)


async def _address(folder: Path, started: subprocess.Popen[bytes]) -> str:
    """Where it listens, which it writes to its profile."""
    told = folder / "DevToolsActivePort"
    async with asyncio.timeout(START_SECONDS):
        while not told.exists() or told.read_text().count("\n") < 1:
            assert started.poll() is None, f"Chromium ended with {started.returncode}"
            await asyncio.sleep(0.05)
    port, path = told.read_text().split("\n")
    return f"ws://127.0.0.1:{port}{path}"
