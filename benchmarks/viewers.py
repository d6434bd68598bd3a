"""Views a server's live view as several browsers do, and forgets what it sees.

usage: python benchmarks/viewers.py PORT COUNT

Prints a line as soon as each viewer has a frame.
"""

import selectors
import socket
import sys

_REQUEST = b"GET /live/frames HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def main(port: int, count: int) -> None:
    selector = selectors.DefaultSelector()
    for _ in range(count):
        viewer = socket.create_connection(("127.0.0.1", port))
        viewer.sendall(_REQUEST)
        selector.register(viewer, selectors.EVENT_READ)
    for key in selector.get_map().values():
        assert isinstance(key.fileobj, socket.socket)
        seen = b""
        while b"\ndata: " not in seen:
            got = key.fileobj.recv(1 << 16)
            if not got:
                sys.exit("the server has no live view")
            seen += got
    print("all viewers have a frame", flush=True)
    while selector.get_map():
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            if not key.fileobj.recv(1 << 20):
                selector.unregister(key.fileobj)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
