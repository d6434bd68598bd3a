"""What the parent of API servers keeps for all of them: responses and budgets."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from hookline.exceptions import ConfigError, EngineDeadError, RequestError
from hookline_server.api_error import ApiError
from hookline_server.api_servers.asking import (
    Questions,
    SharedAllowance,
    SharedResponses,
    SharedScaling,
)
from hookline_server.api_servers.questions import (
    Answer,
    Ask,
    Charge,
    Draw,
    EndDraw,
    Keep,
    Scaled,
)
from hookline_server.api_servers.shared_state import SharedState
from hookline_server.auth.key_file import key_file
from hookline_server.auth.key_ring import KeyRing
from hookline_server.auth.key_table import digest_of
from hookline_server.engine_number import (
    DrainTimeoutError,
    ScalingBusyError,
    ScalingReport,
    ScalingState,
    StartFailedError,
)
from hookline_server.response_store import ResponseStore, StoredResponse
from hookline_server.response_store_settings import ResponseStoreSettings
from hookline_testing.scripted_server import FakeNumber

ALICE = ("alice", "")
KEYS = """
keys:
  - name: alice
    key: sk-alice-0123456789
    limits: {requests_per_minute: 3, tokens_per_minute: 100, concurrent_requests: 2}
"""


class Server:
    """An API server as the parent sees it, over the messages' encoding."""

    def __init__(self, state: SharedState, client: int) -> None:
        self._state = state
        self._client = client
        self._answering: set[asyncio.Task[None]] = set()
        self.questions = Questions(self._send)
        self.responses = SharedResponses(self.questions, is_enabled=True)

    def allowance(self) -> SharedAllowance:
        return SharedAllowance(
            self.questions, Draw(digest_of("sk-alice-0123456789").hex(), None)
        )

    def _send(self, message: msgspec.Struct) -> None:
        sent = msgspec.msgpack.decode(
            msgspec.msgpack.encode(message), type=Ask | Keep | Charge | EndDraw
        )
        if not isinstance(sent, Ask):
            self._state.on_message(sent, self._client)
            return
        task = asyncio.create_task(self._answer(sent))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, ask: Ask) -> None:
        answer = await self._state.answer(ask, self._client)
        encoded = msgspec.msgpack.encode(answer)
        self.questions.on_answer(msgspec.msgpack.decode(encoded, type=Answer))


def make_state(tmp_path: Path) -> SharedState:
    file = tmp_path / "keys.yaml"
    file.write_text(KEYS)
    keys = KeyRing(file=key_file(str(file)), clock=lambda: 0.0)
    return SharedState(ResponseStore(ResponseStoreSettings()), keys, FakeNumber())


def scaling_of(number: FakeNumber) -> SharedScaling:
    """The number of engines as an API server changes it."""
    state = SharedState(ResponseStore(ResponseStoreSettings()), KeyRing(), number)
    return SharedScaling(Server(state, 1).questions)


def response(number: int, previous: str | None = None) -> StoredResponse:
    return StoredResponse(
        id=f"resp_{number}",
        owner=ALICE,
        payer="",
        previous_id=previous,
        response=b"{}",
        input=b"[]",
        output=b"[]",
        item_ids=(f"msg_{number}",),
    )


async def test_a_response_is_found_from_every_server(tmp_path: Path) -> None:
    """With those that it continues, and by its items, until one server deletes it."""
    state = make_state(tmp_path)
    one, other = Server(state, 1), Server(state, 2)

    one.responses.keep(response(1))
    other.responses.keep(response(2, "resp_1"))
    chain = await one.responses.chain(ALICE, "resp_2")
    holder = await other.responses.holder(ALICE, "msg_1")
    deleted = await other.responses.delete(ALICE, "resp_1")

    assert [each.id for each in chain] == ["resp_2", "resp_1"]
    assert holder == response(1)
    assert deleted
    assert await one.responses.holder(ALICE, "msg_1") is None
    assert await one.responses.chain(("bob", ""), "resp_2") == []


async def test_a_response_that_is_still_on_its_way_is_found(tmp_path: Path) -> None:
    """One server's message may be read after another's question that follows it."""
    state = make_state(tmp_path)
    one, other = Server(state, 1), Server(state, 2)

    asking = asyncio.create_task(other.responses.chain(ALICE, "resp_1"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    one.responses.keep(response(1))

    assert [each.id for each in await asking] == ["resp_1"]


async def test_all_servers_draw_on_one_budget(tmp_path: Path) -> None:
    """Three requests in a minute, whichever server gets them; then a 429."""
    state = make_state(tmp_path)
    servers = [Server(state, 1), Server(state, 2)]
    outcomes: list[object] = []

    for number in range(4):
        allowance = servers[number % 2].allowance()
        try:
            async with allowance.used():
                outcomes.append(allowance.headers()["x-ratelimit-remaining-requests"])
        except ApiError as error:
            outcomes.append(error.status)

    assert outcomes == ["2", "1", "0", 429]


async def test_tokens_are_charged_to_it(tmp_path: Path) -> None:
    """A request that another server's has left no tokens for is refused."""
    state = make_state(tmp_path)

    allowance = Server(state, 1).allowance()
    async with allowance.used():
        allowance.charge(100)
    try:
        async with Server(state, 2).allowance().used():
            refused = None
    except ApiError as error:
        refused = str(error)

    assert refused == "the limit of 100 tokens per minute is reached"


async def test_a_dead_servers_requests_are_open_no_longer(tmp_path: Path) -> None:
    """Two may be open; a dead server's two make room."""
    state = make_state(tmp_path)
    dying, other = Server(state, 1), Server(state, 2)
    for _ in range(2):
        await dying.allowance().used().__aenter__()

    state.left(1)

    async with other.allowance().used():
        pass


async def test_engines_are_scaled_from_every_server() -> None:
    """The parent does it; it answers with the engines."""
    number = FakeNumber()
    scaling = scaling_of(number)

    before = await scaling.report()
    scaled = await scaling.scale(3, drain_seconds=7.0)

    assert before == ScalingReport(ScalingState((0,)), 1, is_changing=False)
    assert scaled == ScalingState((0, 1, 2))
    assert number.asked == [(3, 7.0)]


@pytest.mark.parametrize(
    "error",
    [
        RequestError("too many", param="data_parallel_size"),
        ConfigError("device", "engines on GPUs cannot come and go"),
        ScalingBusyError("later"),
        StartFailedError("no memory"),
        DrainTimeoutError((1, 2), 3.0),
        EngineDeadError("it is being stopped"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_of_scaling_come_as_they_are(error: Exception) -> None:
    """With the same words and facts."""
    number = FakeNumber()
    number.error = error

    with pytest.raises(type(error)) as raised:
        await scaling_of(number).scale(2, drain_seconds=1.0)

    assert str(raised.value) == str(error)
    assert vars(raised.value) == vars(error)


async def test_a_change_may_take_longer_than_other_answers() -> None:
    """The parent has the times for it; that it is there is known soon."""
    sent: list[msgspec.Struct] = []
    questions = Questions(sent.append, answer_seconds=0.0)
    scaling = SharedScaling(questions)

    changing = asyncio.create_task(scaling.scale(2, drain_seconds=1.0))
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as unanswered:
        await scaling.report()
    is_open = not changing.done()
    first = sent[0]
    assert isinstance(first, Ask)
    questions.on_answer(Answer(first.number, Scaled(ScalingState((0, 1)))))

    assert unanswered.value.status == 503
    assert is_open
    assert await changing == ScalingState((0, 1))
