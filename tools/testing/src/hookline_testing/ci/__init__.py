"""What `.ci/run` runs: checks, and tests, of which those that fail get a second run."""
