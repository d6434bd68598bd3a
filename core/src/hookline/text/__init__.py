"""Text work of a front end in processes of its own: chat templates and tokenizing."""
