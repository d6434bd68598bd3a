"""Tool calls and reasoning in the formats in which common models write them."""
