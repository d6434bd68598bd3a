"""The front end: text, streams, request accounting and observers."""
