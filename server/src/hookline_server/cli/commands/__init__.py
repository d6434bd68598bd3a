"""The subcommands: `run(argv)` of each module returns the exit status."""
