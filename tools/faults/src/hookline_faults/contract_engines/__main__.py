"""Prints what came of each case of each engine: cases by engines.

python -m hookline_faults.contract_engines [--model FOLDER] [NAME ...]
"""

import argparse
import sys

from hookline_faults.contract_engines import engines
from hookline_testing.engine_contract import assert_contract, matrix

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Tries engines in the suite.")
    parser.add_argument("names", nargs="*", help="engines; all without any")
    parser.add_argument("--model", default="demo", help="of engines that compute")
    given = parser.parse_args()
    tried = [
        each
        for each in engines(given.model)
        if not given.names or each.name in given.names
    ]
    outcomes = {each.name: assert_contract(each) for each in tried}
    sys.stdout.write(f"{matrix(outcomes)}\n")
