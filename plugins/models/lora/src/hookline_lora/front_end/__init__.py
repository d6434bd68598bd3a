"""What a front end does for adapters: it loads them in all engines, or in none."""
