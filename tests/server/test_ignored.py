"""What the server leaves out of requests is named and counted, by few kinds."""

from hookline_server.ignored import IGNORED, IgnoredCounts
from hookline_server.protocol.ignored import KNOWN, MOST_NAMED, Ignored
from hookline_server.settings import MaxTokensPolicy, ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of


def test_kinds_lose_their_dates_and_unknown_ones_count_as_other() -> None:
    """The response names what the client sent; metrics have a bounded set of kinds."""
    counts = IgnoredCounts()
    ignored = counts.of("messages")

    for name in ("web_search_20250305", "web_search_preview_2025_03_11", "web_search"):
        ignored.add("tool", name)
    ignored.add("block", "hologram\r\nX-Evil: 1")

    assert ignored.kinds == (
        "tool.web_search",
        "tool.web_search_preview",
        "block.hologram__X-Evil__1",
    )
    assert counts.stats().elements == (
        ("messages", "tool.web_search", 2),
        ("messages", "tool.web_search_preview", 1),
        ("messages", "block.other", 1),
    )


def test_a_response_names_few_kinds() -> None:
    """A hostile request makes no header without end, and no label without end."""
    counts = IgnoredCounts()
    ignored = counts.of("chat")

    for index in range(1000):
        ignored.add("part", f"{index}" * 1000)

    assert len(ignored.kinds) == MOST_NAMED
    assert max(map(len, ignored.kinds)) <= len("part.") + 64
    assert counts.stats().elements == (("chat", "part.other", 1000),)


def test_an_empty_name_and_names_alone() -> None:
    """Without a name there is still a kind; what is only named counts nowhere."""
    counted: list[str] = []
    ignored = Ignored(counted.append)

    ignored.add("item", "")
    ignored.name("field", "betas")

    assert ignored.kinds == ("item._", "field.betas")
    assert counted == ["item.other"]


def test_all_kinds_fit_below_the_cap_of_the_label() -> None:
    """A busy server shows each kind by its name, however many there are."""
    assert sum(len(names) + 1 for names in KNOWN.values()) <= 128


async def test_each_api_counts_for_itself() -> None:
    """The label says where the client had sent what was left out."""
    engine, prompt = FakeEngine("ab"), [{"role": "user", "content": "Hi"}]
    settings = ServerSettings(max_tokens_policy=MaxTokensPolicy.CLAMP)

    async with client_of(engine, settings) as client:
        for path, body in (
            ("/v1/completions", {"prompt": "Hi", "max_tokens": 10**6}),
            ("/v1/chat/completions", {"messages": prompt, "max_tokens": 10**6}),
            ("/v1/messages", {"messages": prompt, "max_tokens": 10**6}),
            ("/v1/responses", {"input": "Hi", "max_output_tokens": 10**6}),
        ):
            response = await client.post(path, json=body)
            assert response.status == 200, await response.text()
        counted = client.app[IGNORED].stats().elements

    kinds = {api: (kind, count) for api, kind, count in counted}
    apis = ("completions", "chat", "messages", "responses")
    assert kinds == dict.fromkeys(apis, ("limit.max_tokens", 1))
