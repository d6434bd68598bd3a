"""The aiohttp server with the OpenAI API, and the `hookline` command."""
