"""One kind of text work: its queue, its process, and what happens if a job fails."""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from hookline.exceptions import EngineDeadError
from hookline_metrics.front_end_parts import TextQueueName, TextQueueStats
from hookline_processes.async_channel import AsyncChannel
from hookline_processes.fair_queue import Client, FairQueue
from hookline_processes.limits import small_environment
from hookline_processes.supervised import Output, Supervised
from hookline_registry import FailureLog
from hookline_server.texts.errors import TextLimitError, TextQueueFullError
from hookline_server.texts.messages import Answer, Job, Ready, Reply

START_SECONDS = 60.0
"""Time for a process to load the tokenizer."""
MAX_WAITING_JOBS = 4096
MAX_WAITING_CHARS = 64 * 2**20
_CHECKS_PER_LIMIT = 8


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
        channel: Takes jobs.
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
            role="text",
            pass_fds=(setup_fd,),
            environment=small_environment(),
            output=Output.NONE,
        )
        end = self.process.copy_channel()
        self.channel: AsyncChannel[Reply] = AsyncChannel(
            end, msgspec.msgpack.Decoder(Reply)
        )
        self._is_killed = False
        self._hearing = asyncio.create_task(self._hear(take, ended))

    def kill(self) -> None:
        """Ends the process without calling `ended`; its owner has to reap it."""
        self._is_killed = True
        self._hearing.cancel()
        self.channel.close()
        self.process.kill()

    async def _hear(
        self, take: Callable[[Reply], None], ended: Callable[[str], None]
    ) -> None:
        try:
            while (reply := await self.channel.receive()) is not None:
                take(reply)
                if self._is_killed:
                    return
        except ValueError as error:
            how = f"it sent what is no reply: {error}"
        else:
            how = self.process.end_reason or "it closed its socket"
        self.kill()
        ended(how)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    client: Client
    job: Job
    size: int
    answer: asyncio.Future[Answer]


@dataclass(slots=True)
class _Totals:
    jobs: int = 0
    seconds: float = 0.0
    restarts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of a queue.

    Attributes:
        name: The queue.
        limits: Limits of its process.
        depth: Jobs that the process may hold; further ones wait in turn by client.
        retire_chars: Size of a job after which the process is replaced, because its
            memory has grown.
    """

    name: TextQueueName
    limits: TextLimits
    depth: int
    retire_chars: float = math.inf


class TextQueue:
    """Hands jobs to one text process, which is started with the first job.

    A process that ends or exceeds a limit is replaced. The job that it was working on
    fails; those behind it are sent again. Used on the event loop only.
    """

    def __init__(
        self,
        settings: QueueSettings,
        setup_fd: Callable[[], int],
        reap: Callable[[Supervised], None],
    ) -> None:
        """Starts nothing yet.

        Args:
            settings: Name and limits.
            setup_fd: Returns the file with the `Setup`.
            reap: Takes a process that was killed.
        """
        self._settings = settings
        self._setup_fd = setup_fd
        self._reap = reap
        self._loop = asyncio.get_running_loop()
        self._queue: FairQueue[_Waiting] = FairQueue()
        self._waiting_chars = 0
        self._sent: deque[_Waiting] = deque()
        self._process: TextProcess | None = None
        self._is_ready = False
        self._has_begun = asyncio.Event()
        self._head_since = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._totals = _Totals()
        self._crashes = FailureLog(f"text process {settings.name}")

    @property
    def stats(self) -> TextQueueStats:
        """Totals since the start, and the number of jobs that wait."""
        return TextQueueStats(
            queue=self._settings.name,
            waiting=self._queue.length + len(self._sent),
            jobs=self._totals.jobs,
            seconds=self._totals.seconds,
            exceeded=self._totals.restarts["exceeded"],
            crashed=self._totals.restarts["crashed"],
        )

    async def do(self, client: Client, job: Job, size: int) -> Answer:
        """Returns the answer to a job.

        Args:
            client: Whose turn the job takes.
            job: The job.
            size: Its text in characters.

        Raises:
            TextQueueFullError: Too much text is waiting.
            TextLimitError: The job exceeds a limit, or the process ended.
            OverflowError: An integer of the job has more than 64 bits.
            UnicodeEncodeError: A text has characters that are not Unicode's.
        """
        if (
            self._queue.length >= MAX_WAITING_JOBS
            or self._waiting_chars + size > MAX_WAITING_CHARS
        ):
            raise TextQueueFullError(MAX_WAITING_JOBS)
        waiting = _Waiting(client, job, size, self._loop.create_future())
        if self._queue.length or len(self._sent) >= self._settings.depth:
            self._queue.push(client, waiting)
            self._waiting_chars += size
        else:
            self._send(waiting)
        return await waiting.answer

    async def start_process(self) -> None:
        """Starts the process, and waits until it is ready or has ended.

        Raises:
            OSError: It cannot be started.
        """
        if self._process is None:
            self._start()
        await self._has_begun.wait()

    def close(self) -> None:
        """Ends the process; open jobs fail."""
        self._has_begun.set()
        self._end_process()
        while self._queue.length:
            self._sent.append(self._queue.pop())
        while self._sent:
            if not (answer := self._sent.popleft().answer).done():
                answer.set_exception(EngineDeadError("it was closed"))

    def _pump(self) -> None:
        while self._queue.length and len(self._sent) < self._settings.depth:
            waiting = self._queue.pop()
            self._waiting_chars -= waiting.size
            if waiting.answer.done():  # its client has left
                continue
            self._send(waiting)

    def _send(self, waiting: _Waiting) -> None:
        try:
            process = self._process or self._start()
            process.channel.send(waiting.job)
        except OSError as error:
            self._totals.restarts["crashed"] += 1
            self._crashes.log(("cannot be started",), str(error))
            waiting.answer.set_exception(TextLimitError(False))
            return
        except (OverflowError, UnicodeEncodeError) as error:
            waiting.answer.set_exception(error)
            return
        if not self._sent and self._is_ready:
            self._head_since = self._loop.time()
        self._sent.append(waiting)
        if self._watch is None:
            self._keep_watch()

    def _start(self) -> TextProcess:
        """Starts the process; raises `OSError` if it cannot be started."""
        self._is_ready = False
        self._head_since = self._loop.time()
        self._process = process = TextProcess(
            self._setup_fd(), self._settings.limits, take=self._take, ended=self._ended
        )
        self._keep_watch()
        return process

    def _take(self, reply: Reply) -> None:
        self._head_since = self._loop.time()
        if isinstance(reply, Ready):
            self._is_ready = True
            self._has_begun.set()
            return
        done = self._sent.popleft()
        self._totals.jobs += 1
        self._totals.seconds += reply.seconds
        if not done.answer.done():
            done.answer.set_result(reply)
        if done.size > self._settings.retire_chars:
            self._replace()
        if self._queue.length:
            self._pump()

    def _ended(self, how: str) -> None:
        """The process ended by itself: at a limit of the kernel or by a crash."""
        spent = self._loop.time() - self._head_since
        is_limit = self._is_ready and spent > self._settings.limits.cpu_seconds / 2
        if not is_limit:
            self._crashes.log(("crashed",), how)
        self._fail("exceeded" if is_limit else "crashed")

    def _fail(self, cause: str) -> None:
        self._has_begun.set()
        self._totals.restarts[cause] += 1
        if self._sent and not (culprit := self._sent.popleft()).answer.done():
            culprit.answer.set_exception(TextLimitError(cause == "exceeded"))
        self._replace()
        self._pump()

    def _replace(self) -> None:
        """Ends the process; what it had not answered goes to the next one."""
        self._end_process()
        while self._sent:
            waiting = self._sent.pop()
            self._queue.push_first(waiting.client, waiting)
            self._waiting_chars += waiting.size

    def _end_process(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._process is not None:
            self._process.kill()
            self._reap(self._process.process)
            self._process = None

    def _keep_watch(self) -> None:
        """Checks the time now and then, as long as the process has something to do."""
        seconds = self._settings.limits.seconds / _CHECKS_PER_LIMIT
        self._watch = self._loop.call_later(seconds, self._check_time)

    def _check_time(self) -> None:
        self._watch = None
        if self._is_ready and not self._sent:
            return
        limit = self._settings.limits.seconds if self._is_ready else START_SECONDS
        if self._loop.time() - self._head_since > limit:
            self._fail("exceeded")
        else:
            self._keep_watch()
