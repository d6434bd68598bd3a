"""Sets how torch's own threads wait, before torch is loaded."""

import os
from collections.abc import Mapping

_CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
_PATIENT = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}
"""Some 40 µs of spinning with GNU's library, where its default is milliseconds."""


def patient_threads(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns variables with which OpenMP's threads sleep soon when they wait.

    torch's threads would otherwise spin for milliseconds after an operation on cores
    that Hookline's threads, the server or other programs need. Empty if the
    environment has a choice of the user's.
    """
    return {} if any(name in environment for name in _CHOICES) else dict(_PATIENT)


def wait_patiently() -> None:
    """Sets these variables for this process; without effect once torch is loaded."""
    os.environ.update(patient_threads(os.environ))
