"""Options: derived from configurations, and read from command lines and files."""
