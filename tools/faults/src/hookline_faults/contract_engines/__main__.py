"""Prints what came of each case of each engine: cases by engines."""

import sys

from hookline_faults.contract_engines import engines
from hookline_testing.engine_contract import assert_contract, matrix

if __name__ == "__main__":
    outcomes = {each.name: assert_contract(each) for each in engines("demo")}
    sys.stdout.write(f"{matrix(outcomes)}\n")
