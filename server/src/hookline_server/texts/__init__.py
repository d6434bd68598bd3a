"""Texts of a server: chat templates and tokenizing, in separate processes."""
