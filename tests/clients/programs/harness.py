"""What the programs share: where the server is, and how features are reported.

A program is run by the interpreter of its client's environment, with the server's URL
as argument. It prints one line of JSON for each feature.
"""

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from urllib.request import Request, urlopen

ROOT = sys.argv[1]
V1 = f"{ROOT}/v1"
KEY, NARROW_KEY = os.environ["CLIENTS_KEY"], os.environ["CLIENTS_NARROW_KEY"]
MODEL = "demo"
FEATURE_SECONDS = 60.0

QUESTION = "What is the weather in Paris and Oslo?"
FORECAST = {"Paris": "sun", "Oslo": "rain"}
SAID = "The tools say: sun, rain."
"""The scripted answer to the question, once the tools have answered."""
TOO_LONG = "word " * 2500
"""More tokens than the server's context has."""

_features: dict[str, Callable[[], None]] = {}


def feature(function: Callable[[], None]) -> Callable[[], None]:
    """Has the function tried as the feature of its name; it raises if that fails."""
    _features[function.__name__] = function
    return function


def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    return FORECAST[city]


WEATHER_PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": list(FORECAST)}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": get_weather.__doc__,
        "parameters": WEATHER_PARAMETERS,
    },
}


def wait_until_idle() -> None:
    """Waits until the server has ended all requests, as it does when clients leave."""
    deadline = time.monotonic() + FEATURE_SECONDS / 2
    headers = {"Authorization": f"Bearer {KEY}"}
    request = Request(f"{ROOT}/load", headers=headers)
    while True:
        with urlopen(request) as response:
            load = json.load(response)["server_load"]
        if not load:
            return
        assert time.monotonic() < deadline, f"{load} requests are still open"
        time.sleep(0.05)


@contextmanager
def raises(kind: type[BaseException], *words: str):
    """Expects an error of this kind, whose text has these words."""
    try:
        yield
    except kind as error:
        text = str(error)
    else:
        raise AssertionError(f"nothing raised {kind.__name__}")
    missing = [word for word in words if word not in text]
    assert not missing, f"{missing} is not in {text}"


def run_features() -> None:
    """Tries all features, one after the other, and ends the process."""
    for name, function in _features.items():
        future = ThreadPoolExecutor(1).submit(function)
        wait([future], FEATURE_SECONDS)
        _report(name, future)
    sys.stdout.flush()
    os._exit(0)  # clients may have left threads


def _report(name: str, future: Future[None]) -> None:
    detail = ""
    if not future.done():
        detail = f"it takes longer than {FEATURE_SECONDS} s\n{_stacks()}"
    elif (error := future.exception()) is not None:
        detail = "".join(traceback.format_exception(error))
    print(json.dumps({"feature": name, "ok": not detail, "detail": detail[-4000:]}))


def _stacks() -> str:
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident)}: {''.join(traceback.format_stack(frame))}"
        for ident, frame in frames.items()
    )
