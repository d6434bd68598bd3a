"""The OpenAPI document of the API, generated from the message types."""
