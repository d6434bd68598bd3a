"""What loggers may rely on, whichever engine it is: a suite for its author's tests.

`assert_contract(ClientEngine("mine", config))` drives an engine of `hookline.engines`;
any other, such as a proxy's or an attachment's, is an `EngineUnderTest` of its own.
"""

from hookline_testing.engine_contract.checking import (
    ContractError,
    Outcome,
    Trial,
    assert_contract,
)
from hookline_testing.engine_contract.client_engine import ClientEngine
from hookline_testing.engine_contract.matrix import matrix
from hookline_testing.engine_contract.scenes import (
    Case,
    End,
    EngineUnderTest,
    Scene,
    Session,
)

__all__ = [
    "Case",
    "ClientEngine",
    "ContractError",
    "End",
    "EngineUnderTest",
    "Outcome",
    "Scene",
    "Session",
    "Trial",
    "assert_contract",
    "matrix",
]
