"""Engine `process`: an engine in a process of its own, over sockets of one user."""
