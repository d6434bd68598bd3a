"""torch's threads sleep soon when they wait, unless the user wants otherwise."""

import pytest

from hookline_kernels.runtime.openmp import patient_threads


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_a_choice_of_the_user_counts(name: str) -> None:
    """It is left alone, whichever variable it is made by."""
    variables = patient_threads({"PATH": "/bin"})

    assert int(variables["GOMP_SPINCOUNT"]) < 10_000
    assert variables["KMP_BLOCKTIME"] == "0"
    assert not patient_threads({name: "ACTIVE"})
