"""The front end's end of a text process: starts it, talks to it, ends it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from hookline_processes.async_channel import AsyncChannel
from hookline_processes.limits import small_environment
from hookline_processes.supervised import Output, Supervised
from hookline_server.texts.messages import Job, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits:
    """Limits of a text process.

    Attributes:
        cpu_seconds: Processor time to tokenize one job's texts.
        seconds: Time for one job by the clock, however busy the machine is.
        memory_bytes: Address space for jobs.
    """

    cpu_seconds: float
    seconds: float
    memory_bytes: int


class TextProcess:
    """A running text process; used on the event loop only.

    Attributes:
        process: The process.
    """

    def __init__(
        self,
        setup_fd: int,
        limits: TextLimits,
        *,
        take: Callable[[Reply], None],
        ended: Callable[[str], None],
    ) -> None:
        """Starts the process and returns at once.

        Args:
            setup_fd: File with the `Setup`.
            limits: Limits of a job.
            take: Called with each reply, in the order of the jobs.
            ended: Called once if the process ends by itself or sends what is no reply,
                with how, in one clause.

        Raises:
            OSError: It cannot be started.
        """
        self.process = Supervised(
            "hookline_server.texts.process",
            (setup_fd, limits.cpu_seconds, limits.memory_bytes),
            name="text process",
            pass_fds=(setup_fd,),
            environment=small_environment(),
            output=Output.NONE,
        )
        end = self.process.copy_channel()
        self._channel = AsyncChannel(end, msgspec.msgpack.Decoder(Reply))
        self._is_killed = False
        self._hearing = asyncio.create_task(self._hear(take, ended))

    def submit(self, job: Job) -> None:
        """Sends a job; does not wait.

        Raises:
            OverflowError: An integer has more than 64 bits.
            UnicodeEncodeError: A text has characters that are not Unicode's.
        """
        self._channel.send(job)

    def kill(self) -> None:
        """Ends the process without calling `ended`; its owner has to reap it."""
        self._is_killed = True
        self._hearing.cancel()
        self._channel.close()
        self.process.kill()

    async def _hear(
        self, take: Callable[[Reply], None], ended: Callable[[str], None]
    ) -> None:
        try:
            while (reply := await self._channel.receive()) is not None:
                take(reply)
                if self._is_killed:
                    return
        except ValueError as error:
            how = f"it sent what is no reply: {error}"
        else:
            how = self.process.end_reason or "it closed its socket"
        self.kill()
        ended(how)
