"""The description of the API as a document of OpenAPI, made from the message types."""
