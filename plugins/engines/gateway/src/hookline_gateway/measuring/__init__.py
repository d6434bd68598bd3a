"""What requests are measured by: their answers, read from outside."""
