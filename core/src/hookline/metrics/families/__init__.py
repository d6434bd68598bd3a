"""The metrics themselves, a module for each thing that they are read off."""
