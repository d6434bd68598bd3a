"""What `hookline plugins new` writes: one module for each kind of plugins.

In a module `sample` stands for the plugin's name, and `Sample` for that of its classes.
"""
