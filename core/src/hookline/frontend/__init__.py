"""What runs beside the client: text, streams, accounting, observers."""
