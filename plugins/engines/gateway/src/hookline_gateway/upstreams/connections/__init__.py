"""HTTP/1.1 to instances: pieces of an answer go on in the call in which they come."""
