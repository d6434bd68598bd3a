"""Chat templates and tokenizing in separate processes of a front end."""
