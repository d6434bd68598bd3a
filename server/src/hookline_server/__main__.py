"""`python -m hookline_server` is the `hookline` command."""

import sys

from hookline_server.cli import main

sys.exit(main())
