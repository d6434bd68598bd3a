"""How many threads compute a step on CPUs: as many as the machine really gives."""
