"""The observer process of a server: `python -m hookline_server.observer_process`.

See `hookline.frontend.observer.process`; this one serves the loggers' pages, too.
"""

import sys

from hookline.frontend.observer.process import main
from hookline_server.observer_pages import ObserverPages

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], ObserverPages))
