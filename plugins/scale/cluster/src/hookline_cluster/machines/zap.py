"""Admits connections whose key is the right one: ZMQ's authentication protocol."""

import hmac
import logging

import zmq
from zmq.utils import z85

_ADDRESS = "inproc://zeromq.zap.01"
_FRAMES = 7
"""Frames of a request with a key, after the sender's identity and an empty frame."""
_log = logging.getLogger(__name__)


class Gatekeeper:
    """Answers the questions of a context's CURVE servers; for one thread.

    Without it, ZMQ would admit any client that knows the server's public key.

    Attributes:
        socket: Has a question whenever it can be read.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", key: bytes) -> None:
        """Listens for questions.

        Args:
            context: The context of the servers.
            key: Public key of the clients, in Z85.
        """
        self._key = key
        self.socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        self.socket.bind(_ADDRESS)

    def answer(self) -> None:
        """Answers the next question; waits for it."""
        frames = self.socket.recv_multipart()
        head, question = frames[:2], frames[2:]
        version, number, _, address = question[:4]
        is_known = len(question) == _FRAMES and hmac.compare_digest(
            z85.encode(question[6]), self._key
        )
        if not is_known:
            _log.warning("refused a peer at %s: wrong key", address.decode())
        verdict = (
            (b"200", b"OK", b"engine") if is_known else (b"400", b"wrong key", b"")
        )
        self.socket.send_multipart([*head, version, number, *verdict, b""])
