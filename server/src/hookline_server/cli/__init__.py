"""The `hookline` command."""

from hookline_processes.import_path import leave_out_working_directory


def main(argv: list[str] | None = None) -> int:
    """Runs the command line and returns the exit status.

    As the command of a process, without arguments, it first makes sure that nothing is
    imported from the working directory.
    """
    left_out = leave_out_working_directory() if argv is None else []
    from hookline_server.cli.dispatch import dispatch  # noqa: PLC0415 - not before

    return dispatch(argv, left_out=left_out)
