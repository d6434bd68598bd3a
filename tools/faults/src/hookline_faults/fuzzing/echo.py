"""A server that does nothing but answer: what it stalls, the machine stalls.

`python -m hookline_faults.fuzzing.echo` writes its port and ends with its input.
"""

import asyncio
import contextlib
import sys

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(ConnectionError):
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            writer.write(_ANSWER)


async def main() -> None:
    """Serves until standard input ends."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
