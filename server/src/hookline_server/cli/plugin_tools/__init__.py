"""The installed plugins: kinds, and what is wrong with them."""
