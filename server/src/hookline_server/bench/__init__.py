"""`hookline bench`: what an engine or a server does, in the field's own words."""
