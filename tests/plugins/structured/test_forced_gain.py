"""Forced drafts are verified where they bring more than they cost."""

from hookline_grammars.forced_gain import ForcedGain


def test_few_requests_always_verify_theirs() -> None:
    """
    However few were accepted before.
    """
    gain = ForcedGain()
    for _ in range(100):
        gain.verified(3, 10)

    assert gain.pays(drafted=8, requests=2)


def test_many_requests_do_not_wait_for_the_drafts_of_one() -> None:
    """
    Unless many are accepted; now and then it is tried again.
    """
    gain = ForcedGain()

    assert gain.pays(drafted=64, requests=64)
    assert not gain.pays(drafted=4, requests=64)
    for _ in range(100):
        gain.verified(5, 10)
    assert gain.pays(drafted=8, requests=6)
    tried = [gain.pays(drafted=640, requests=64) for _ in range(130)]
    assert tried == [*64 * [False], True, *64 * [False], True]
    for _ in range(100):
        gain.verified(8, 8)
    assert gain.pays(drafted=64, requests=64)
