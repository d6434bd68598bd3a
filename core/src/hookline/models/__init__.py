"""Models as the engine knows them: description, shapes of layers, and one decoder."""
