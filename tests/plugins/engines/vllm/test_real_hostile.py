"""What harms Hookline leaves a real vLLM alone, unlike what harms vLLM's loggers."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from hookline_testing.vllm_server import VllmServer, vllm_serving
from hookline_testing.waiting import wait_for_value, wait_until

pytestmark = pytest.mark.vllm
ATTACHED = {"VLLM_PLUGINS": "hookline"}

GROWING = """
import os, signal
from hookline import hookimpl

class Growing:
    def __init__(self, context):
        self.kept = []
    @hookimpl
    def state_changed(self, state):
        self.kept.append(bytearray(32 << 20))
        if len(self.kept) > 2:
            os.kill(os.getpid(), signal.SIGKILL)  # as the system does
"""
RAISING = """
from vllm.v1.metrics.loggers import AggregateStatLoggerBase

class Raising(AggregateStatLoggerBase):
    def __init__(self, vllm_config, engine_indexes): pass
    def record(self, *args, **kwargs): raise RuntimeError("no")
    def log_engine_initialized(self): pass
"""
CHANGED = """
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

NAME = "vllm.v1.engine.output_processor"

class Changing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != NAME:
            return None
        spec = PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module
        def changed(module):
            run(module)
            kind = module.OutputProcessor
            before = kind.abort_requests
            del kind.abort_requests
            def found(self, name):
                if name != "abort_requests":
                    raise AttributeError(name)
                return before.__get__(self)
            kind.__getattr__ = found
        spec.loader.exec_module = changed
        return spec

sys.meta_path.insert(0, Changing())
"""


def test_logger_that_raises_ends_a_plain_vllm(tmp_path: Path) -> None:
    """The same mistake as a stat logger of vLLM's own kind: the server is gone."""
    (tmp_path / "raising.py").write_text(RAISING)
    told = tmp_path / "raising-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: raising\nVersion: 1\n")
    group = "[vllm.stat_logger_plugins]\nraising = raising:Raising\n"
    (told / "entry_points.txt").write_text(group)
    with vllm_serving(tmp_path, VLLM_PLUGINS="raising") as server:
        server.post("/v1/completions", {"model": "tiny", "prompt": "a"})

        wait_until(
            lambda: server.process.poll() is not None,
            "vLLM isolates its loggers now",
        )


def test_growing_logger_and_full_disk_harm_only_themselves(tmp_path: Path) -> None:
    """Their process is killed again and again, until the one that grows is left out."""
    (tmp_path / "growing.py").write_text(GROWING)
    options = tmp_path / "hookline.yaml"
    options.write_text(
        "observer-process: true\n"
        "stat-logger-option: {request_log: {path: /dev/full}}\n"
        "stat-logger: [prometheus, request_log, 'growing:Growing']\n"
    )
    with vllm_serving(tmp_path, HOOKLINE_CONFIG=str(options), **ATTACHED) as server:

        def is_left_out() -> bool:
            answers_all(server)
            return "growing:Growing has ended the observer" in server.log.read_text(
                "utf-8", "replace"
            )

        wait_until(is_left_out, "the logger goes on")

        def observers() -> list[int]:
            with suppress(AssertionError):  # its replacement takes a moment
                return [server.pid_of("hookline_observer.process")]
            return []

        (observer,) = wait_for_value(observers, bool, "no observer without it")
        os.kill(observer, signal.SIGKILL)
        answers_all(server)

        def is_told() -> bool:
            status, text = server.get("/hookline/metrics")
            return status == 200 and "hookline_requests_received_total" in text

        wait_until(is_told, "no other observer")
        assert server.pid_of("hookline_observer.process") != observer
        assert "No space left on device" in server.log.read_text("utf-8", "replace")
        answers_all(server)


def test_missing_attribute_is_named_and_vllm_serves_on(tmp_path: Path) -> None:
    """The tier of requests is off; sums and steps are told."""
    (tmp_path / "sitecustomize.py").write_text(CHANGED)
    with vllm_serving(tmp_path, **ATTACHED) as server:
        answers_all(server)

        lines = server.log.read_text("utf-8", "replace").splitlines()
        named = [line for line in lines if "vLLM has changed" in line]
        assert named
        assert all("OutputProcessor.abort_requests" in line for line in named)
        assert server.figures()["hookline_requests_finished_total{length}"] == 4


def test_engine_that_is_killed_ends_vllm_as_without_us(tmp_path: Path) -> None:
    """Nothing of ours keeps it alive, and nothing is left of it."""
    with vllm_serving(tmp_path, **ATTACHED) as server:
        answers_all(server)
        os.kill(server.pid_of("VLLM::EngineCore"), signal.SIGKILL)

        wait_until(
            lambda: server.process.poll() is not None,
            "vLLM does not end",
        )


def answers_all(server: VllmServer) -> None:
    """Asks four times in turn."""
    assert [server.ask(number, tokens=8) for number in range(4)] == [8] * 4
    assert server.is_ready()
