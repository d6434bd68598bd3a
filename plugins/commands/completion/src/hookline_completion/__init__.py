"""Shell completion and a man page, made of the commands that are installed."""
