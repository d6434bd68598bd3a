"""Counts of speculative decoding from a server's metrics."""

from hookline_bench.spec_decode import growth, spec_decode_counts

PAGE = """\
# TYPE {p}spec_decode_num_drafts counter
{p}spec_decode_num_drafts_total{{engine="0"}} {drafts}
{p}spec_decode_num_drafts_total{{engine="1"}} 1
# TYPE {p}spec_decode_num_draft_tokens counter
{p}spec_decode_num_draft_tokens_total{{engine="0"}} {drafted}
# TYPE {p}spec_decode_num_accepted_tokens counter
{p}spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}
# TYPE {p}spec_decode_num_accepted_tokens_per_pos counter
{p}spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="0"}} {accepted}
"""


def page(drafts: int, drafted: int, accepted: int, prefix: str = "vllm:") -> str:
    return PAGE.format(p=prefix, drafts=drafts, drafted=drafted, accepted=accepted)


def test_growth_is_the_difference_of_two_pages() -> None:
    """
    Counters are summed over engines and subtracted.
    """
    before = spec_decode_counts(page(10, 30, 5))
    after = spec_decode_counts(page(20, 60, 15))

    grown = growth(before, after)

    assert grown is not None
    assert (grown.drafts, grown.draft_tokens, grown.accepted_tokens) == (10, 30, 10)
    assert grown.acceptance_length == 2.0
    assert grown.position_rates == [1.0]


def test_two_dialects_are_not_added_up() -> None:
    """
    A page with the same counts under two names is read once.
    """
    both = page(10, 30, 5) + page(10, 30, 5, prefix="hookline_")

    counts = spec_decode_counts(both)

    assert counts is not None
    assert counts.drafts == 11


def test_without_speculation_there_is_nothing() -> None:
    """
    Without a page, its series or any draft there are no counts.
    """
    idle = spec_decode_counts(page(10, 30, 5))

    assert spec_decode_counts("<html>") is None
    assert spec_decode_counts("# TYPE up gauge\nup 1\n") is None
    assert growth(None, idle) is None
    assert growth(idle, idle) is None
