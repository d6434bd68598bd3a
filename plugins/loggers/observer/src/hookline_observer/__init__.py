"""The observer process: it holds the loggers of one or several front ends."""
