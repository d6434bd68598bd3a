"""Log lines that never block the thread that writes them."""
