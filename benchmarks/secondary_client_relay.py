"""What it costs the head node to pass frames between API servers and remote engines.

An engine's end and a server's end run in threads of this process, over the loopback
with encryption; the processor time is that of the relaying thread alone.
"""

import argparse
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hookline_cluster.machines.client_relay import ClientRelay
from hookline_cluster.machines.endpoint import Endpoint
from hookline_cluster.machines.link_keys import LinkKeys
from hookline_cluster.machines.tcp import TcpHub, TcpLink
from hookline_process_engine.ipc import IpcTransport, ipc_address
from hookline_process_engine.mailbox import make_key
from hookline_process_engine.transport import Party, Role

SIZES = (300, 1_000, 4_000, 32_000)
HEAD, SECONDARY = Party(Role.CLIENT, 0), Party(Role.CLIENT, 1)
ENGINE = Party(Role.ENGINE, 0)
KEY_AT = 11


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of the relaying thread for a frame, in seconds."""

    to_secondary: float
    to_engine: float


class Relayed:
    """A head node, an engine that is connected to it, and a secondary client."""

    def __init__(self) -> None:
        keys = LinkKeys.derive(secrets.token_bytes(32))
        self.relay = ClientRelay()
        self.hub = TcpHub(Endpoint("127.0.0.1", 0), keys, self.relay)
        endpoint = Endpoint("127.0.0.1", self.hub.port)
        self.link = TcpLink(endpoint, keys, max_waiting=0, on_lost=lambda: None)
        self.secondary = IpcTransport(self.relay.folder, SECONDARY)
        self.key = make_key()
        self.relay.add_engine(ENGINE, self.key)
        address = ipc_address(self.relay.folder, SECONDARY)
        self.relay.transport.connect(SECONDARY, address, max_waiting=0)
        self.secondary.connect(HEAD, self.relay.address, max_waiting=0)
        # The hub checks the connection while it receives.
        while not self.link.send(HEAD, bytearray(b"hello"), waits=False):
            self.hub.receive(0.02)
        while self.hub.receive(0.1) is None:
            pass
        self.hub.connect(ENGINE, self.hub.origin, max_waiting=0)

    def frame(self, size: int) -> bytearray:
        frame = bytearray(size)
        frame[KEY_AT : KEY_AT + len(self.key)] = self.key
        return frame

    def cost(self, size: int, frames: int) -> Cost:
        """Passes frames in both directions, one direction after the other."""
        frame = self.frame(size)

        def from_engine() -> None:
            for _ in range(frames):
                self.link.send(SECONDARY, frame, waits=True)

        def from_secondary() -> None:
            for _ in range(frames):
                self.secondary.send(HEAD, frame, waits=True)

        to_secondary = self._measured(from_engine, self.secondary.receive, frames)
        to_engine = self._measured(from_secondary, self.link.receive, frames)
        return Cost(to_secondary, to_engine)

    def close(self) -> None:
        self.link.close()
        self.hub.close()
        self.secondary.close()
        self.relay.close()

    def _measured(
        self,
        send: Callable[[], None],
        receive: Callable[[float], bytes | None],
        frames: int,
    ) -> float:
        is_over = threading.Event()

        def take() -> None:
            received = 0
            while received < frames:
                received += receive(1.0) is not None
            is_over.set()

        threads = [threading.Thread(target=each) for each in (send, take)]
        for thread in threads:
            thread.start()
        began = time.thread_time()
        while not is_over.is_set():
            self.hub.receive(0.05)
        spent = time.thread_time() - began
        for thread in threads:
            thread.join()
        return spent / frames


def main() -> None:
    """Prints a row for each size of frames."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=5_000, help="frames of a size")
    frames = parser.parse_args().frames
    relayed = Relayed()
    try:
        for size in SIZES:
            cost = relayed.cost(size, frames)
            print(
                f"{size:6d} bytes: {cost.to_secondary * 1e6:5.1f} µs to a server, "
                f"{cost.to_engine * 1e6:5.1f} µs to an engine"
            )
    finally:
        relayed.close()


if __name__ == "__main__":
    main()
