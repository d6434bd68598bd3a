"""A real Prometheus as a process, and queries to it."""

import json
import math
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from hookline_testing.own_time import Deadline

START_SECONDS = 90.0


class Prometheus:
    """The HTTP API of a running one."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}"

    def query(
        self, expression: str, *, at: float | None = None
    ) -> list[dict[str, Any]]:
        """Series of an instant query; AssertionError with the reason if it is invalid.

        A scalar counts as one series without labels.

        Args:
            expression: What is asked for.
            at: Unix time of the query; now if None.
        """
        when = {} if at is None else {"time": f"{at:.3f}"}
        text = urllib.parse.urlencode({"query": expression, **when})
        found = self._get(f"/api/v1/query?{text}")
        if found["resultType"] == "scalar":
            return [{"metric": {}, "value": found["result"]}]
        return list(found["result"])

    def values(self, expression: str, *, at: float | None = None) -> list[float]:
        """The expression's finite values, one for each series that has one."""
        found = [float(each["value"][1]) for each in self.query(expression, at=at)]
        return [value for value in found if math.isfinite(value)]

    def rules(self) -> list[dict[str, Any]]:
        groups = self._get("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(  # noqa: S310
                self._root + path, timeout=30
            ) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{path}: {error.read().decode()}") from error
        return answer["data"]


@contextmanager
def scraping(
    program: Path, folder: Path, config: Mapping[str, object], *argv: str
) -> Iterator[Prometheus]:
    """Runs Prometheus with a configuration until the end of the block.

    Args:
        program: Path of the binary.
        folder: Empty folder for its configuration, data and log.
        config: What prometheus.yml is to say.
        argv: Further arguments, such as `--enable-feature=native-histograms`.
    """
    (folder / "prometheus.yml").write_text(yaml.safe_dump(dict(config)))
    log = folder / "prometheus.log"
    command = [
        str(program),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        *argv,
    ]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stderr=errors, text=True) as started,  # noqa: S603
    ):
        try:
            yield Prometheus(_port(started, log))
        finally:
            started.terminate()
            try:
                started.wait(30)
            except subprocess.TimeoutExpired:
                started.kill()


def _port(started: subprocess.Popen[str], log: Path) -> int:
    """The port that Prometheus took, once it answers queries."""
    deadline = Deadline(START_SECONDS)
    while "Server is ready" not in (log_text := log.read_text()):
        assert started.poll() is None, log_text
        assert deadline.is_ahead, log_text
        time.sleep(0.1)
    found = re.search(r"address=127\.0\.0\.1:([1-9]\d*)", log_text)
    assert found is not None, log_text
    return int(found[1])
