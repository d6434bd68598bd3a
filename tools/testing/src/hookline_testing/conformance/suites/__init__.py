"""What is called of each kind of plugin: a module for each, with `check(subject)`."""
