"""Drafting: when and how many drafts are requested, and which of them are kept."""
