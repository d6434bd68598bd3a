"""A connector whose worker side hangs, and wakes up late."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.plugin_site import PluginSite
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

CONNECTOR = """
import json
import os
import time

import numpy as np

from hookline import hookimpl
from hookline_kv_transfer import (
    ConnectorMetadata,
    SchedulerCapabilities,
)
from hookline_testing.idle_connector import IdleWorkerSide

FOLDER = os.environ["HUNG_FOLDER"]


class Scheduler:
    capabilities = SchedulerCapabilities()

    def __init__(self):
        self.loads = []

    def register_kv_layout(self, layout):
        self.size = layout.block_size

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        return len(request.token_ids) // self.size * self.size, True

    def update_state_after_alloc(self, request, load):
        self.loads.append((load.transfer_id, load.block_ids))

    def build_connector_meta(self, step):
        loads, self.loads = self.loads, []
        return ConnectorMetadata(json.dumps(loads).encode()) if loads else None

    def request_finished(self, request, block_ids, transfer_id):
        return True, None

    def shutdown(self):
        pass


class Worker(IdleWorkerSide):
    def register_kv_caches(self, blocks):
        self.blocks = blocks

    def start_load_kv(self, metadata):
        while not os.path.exists(os.path.join(FOLDER, "release")):
            time.sleep(0.1)
        outcomes = []
        for transfer_id, block_ids in json.loads(metadata.payload):
            shape = (len(block_ids), self.blocks.layout.block_bytes[0])
            wrong = np.ones(shape, np.uint8)
            for access in (
                lambda: self.blocks.write_blocks(transfer_id, 0, block_ids, wrong),
                lambda: self.blocks.read_blocks(0, block_ids),
            ):
                try:
                    access()
                    outcomes.append("done")
                except Exception as error:
                    outcomes.append(type(error).__name__)
        with open(os.path.join(FOLDER, "outcomes.part"), "w") as file:
            json.dump(outcomes, file)
        os.rename(file.name, os.path.join(FOLDER, "outcomes"))


@hookimpl
def create_kv_connector(context):
    return Scheduler() if context.role == "scheduler" else Worker()
"""

NUM_ANSWERS = 48
ANSWER_SECONDS = 60
ARGUMENTS = ("--port=0", "--executor=simulated", "--num-kv-blocks=256")


def completion(server: Server, index: int) -> str:
    body = {"model": "demo", "prompt": [index, 7] * 40, "max_tokens": 12}
    body |= {"temperature": 0, "ignore_eos": True}
    status, answer = server.post(
        "/v1/completions", body, timeout_seconds=ANSWER_SECONDS
    )
    assert status == 200, answer
    text: str = answer["choices"][0]["text"]
    return text


def all_answers(server: Server) -> list[str]:
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda each: completion(server, each), range(NUM_ANSWERS)))


def outcomes_of_late_calls(folder: Path) -> list[str]:
    """Lets the hung call go on; returns what became of its accesses to blocks."""
    (folder / "release").touch()
    deadline = Deadline(ANSWER_SECONDS)
    while not (folder / "outcomes").exists():
        assert deadline.is_ahead, "the call did not go on"
        time.sleep(0.05)
    found: list[str] = json.loads((folder / "outcomes").read_text())
    return found


def test_hung_connector_is_left_behind(tmp_path: Path) -> None:
    """
    When a connector hangs while it loads, all answers come and are right, no block is
    lost, and the late call can neither write nor read blocks.
    """
    with PluginSite(tmp_path) as site:
        site.install("hanging", CONNECTOR, group="hookline.connectors")
    environment = {"PYTHONPATH": str(tmp_path), "HUNG_FOLDER": str(tmp_path)}
    config = {"kv_connector": "hanging", "kv_role": "kv_both"}
    option = f"--kv-transfer-config={json.dumps(config)}"
    with serving(*ARGUMENTS, option, environment=environment) as server:
        found = all_answers(server)
        late = outcomes_of_late_calls(tmp_path)
        again = all_answers(server)

        assert set(late) == {"TransferClosedError"}
        failures = server.metric(
            "hookline_kv_transfer_failures_total", stage="load", reason="hung"
        )
        assert failures > 0
        server.wait_for("hookline_kv_transfer_held_blocks", 0)
        server.wait_for("hookline_kv_transfer_in_flight", 0, direction="load")
    with serving(*ARGUMENTS) as server:
        assert found == all_answers(server)
        assert again == found
