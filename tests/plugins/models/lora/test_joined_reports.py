"""What several ranks report of adapters, as one."""

from hookline_lora.joined_reports import join_reports
from hookline_lora.messages import AdapterReports, LoadedWeights

NOTHING = AdapterReports()


def loaded(digest: str, seconds: float = 1.0, num_bytes: int = 10) -> AdapterReports:
    return AdapterReports(loaded={digest: LoadedWeights(seconds, num_bytes)})


def test_an_adapter_is_loaded_once_it_is_on_all_ranks() -> None:
    """With the longest time, and the bytes of all."""
    join = join_reports(2)

    assert join([loaded("a"), NOTHING]) == NOTHING
    assert join([NOTHING, NOTHING]) == NOTHING
    assert join([NOTHING, loaded("a", 3.0, 5)]) == loaded("a", 3.0, 15)


def test_it_has_failed_if_it_has_on_one() -> None:
    """Whatever the others say, and once."""
    join = join_reports(2)

    assert join([AdapterReports(failed={"a": "gone"}), NOTHING]) == NOTHING
    assert join([NOTHING, loaded("a")]) == AdapterReports(failed={"a": "gone"})
    assert join([NOTHING, NOTHING]) == NOTHING


def test_two_orders_of_one_adapter_are_told_apart() -> None:
    """A rank may have carried out both while another has the first to do."""
    join = join_reports(2)
    dropped = AdapterReports(failed={"a": "dropped"})

    assert join([dropped, NOTHING]) == NOTHING
    assert join([loaded("a"), NOTHING]) == NOTHING
    assert join([NOTHING, dropped]) == dropped
    assert join([NOTHING, loaded("a")]) == loaded("a", num_bytes=20)
