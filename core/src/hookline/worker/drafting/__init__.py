"""Drafting: when drafts are asked for, how many, and which of them are kept."""
