"""The kinds of plugins."""

from hookline_registry import PluginKind

KINDS = (
    PluginKind(name="logger", group="hookline.loggers"),
    PluginKind(name="observers", group="hookline.observers"),
    PluginKind(name="recorder", group="hookline.recorders"),
    PluginKind(name="proposer", group="hookline.proposers"),
    PluginKind(name="connector", group="hookline.connectors"),
    PluginKind(
        name="logits_processor", group="hookline.logits_processors", has_hooks=False
    ),
    PluginKind(name="tool_parser", group="hookline.tool_parsers", has_hooks=False),
    PluginKind(
        name="reasoning_parser", group="hookline.reasoning_parsers", has_hooks=False
    ),
    PluginKind(
        name="structured_output_backend",
        group="hookline.structured_output_backends",
        has_hooks=False,
    ),
    PluginKind(name="engine", group="hookline.engines", has_hooks=False),
    PluginKind(name="cluster", group="hookline.clusters", has_hooks=False),
    PluginKind(
        name="data_parallel_backend",
        group="hookline.data_parallel_backends",
        has_hooks=False,
    ),
    PluginKind(name="executor", group="hookline.executors", has_hooks=False),
    PluginKind(name="model", group="hookline.models", has_hooks=False),
)
