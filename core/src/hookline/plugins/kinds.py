"""The kinds of plugins: names, entry-point groups and the hooks that make them."""

from hookline_registry import PluginKind

LOGGER = PluginKind(name="logger", group="hookline.loggers", hook="create_stat_logger")
OBSERVERS = PluginKind(
    name="observers", group="hookline.observers", hook="create_observers"
)
RECORDER = PluginKind(
    name="recorder", group="hookline.recorders", hook="create_recorder"
)
PROPOSER = PluginKind(
    name="proposer", group="hookline.proposers", hook="create_proposer"
)
CONNECTOR = PluginKind(
    name="connector", group="hookline.connectors", hook="create_kv_connector"
)
EXTENSION = PluginKind(
    name="extension", group="hookline.extensions", hook="create_extension"
)
QUANTIZATION_METHOD = PluginKind(
    name="quantization_method",
    group="hookline.quantization_methods",
    hook="create_quantization_method",
)
MODEL_FAMILY = PluginKind(
    name="model_family",
    group="hookline.model_families",
    hook="model_family",
    bare="value",
)
LOGITS_PROCESSOR = PluginKind(
    name="logits_processor",
    group="hookline.logits_processors",
    hook="create_logits_processor",
    bare="factory",
)
TOOL_PARSER = PluginKind(
    name="tool_parser",
    group="hookline.tool_parsers",
    hook="create_tool_parser",
    bare="factory",
)
REASONING_PARSER = PluginKind(
    name="reasoning_parser",
    group="hookline.reasoning_parsers",
    hook="create_reasoning_parser",
    bare="factory",
)
GRAMMAR_BACKEND = PluginKind(
    name="structured_output_backend",
    group="hookline.structured_output_backends",
    hook="create_grammar_backend",
    bare="factory",
)
ENGINE = PluginKind(
    name="engine",
    group="hookline.engines",
    hook="connect_engine_client",
    bare="factory",
)
ENGINE_TELLS = PluginKind(
    name="engine_tells",
    group="hookline.engine_tells",
    hook="engine_tells",
    bare="value",
)
TAP = PluginKind(name="tap", group="hookline.taps", hook="create_tap")
CLUSTER = PluginKind(name="cluster", group="hookline.clusters", hook="create_cluster")
ENGINE_NODES = PluginKind(
    name="data_parallel_backend",
    group="hookline.data_parallel_backends",
    hook="open_engine_nodes",
    bare="factory",
)
EXECUTOR = PluginKind(
    name="executor", group="hookline.executors", hook="executor_factory", bare="value"
)
BACKGROUND_COMPILER = PluginKind(
    name="background_compiler",
    group="hookline.background_compilers",
    hook="background_compiler",
)
CONFIG_SECTION = PluginKind(
    name="config_section",
    group="hookline.config_sections",
    hook="config_section",
    bare="value",
)
COMMAND = PluginKind(
    name="command", group="hookline.commands", hook="cli_command", bare="value"
)
MODEL = PluginKind(
    name="model", group="hookline.models", hook="model_folder", bare="provider"
)
MODEL_SOURCE = PluginKind(
    name="model_source",
    group="hookline.model_sources",
    hook="locate_model",
    bare="factory",
)
MODEL_LOADER = PluginKind(
    name="model_loader", group="hookline.model_loaders", hook="create_model_loader"
)
ADAPTER_RESOLVER = PluginKind(
    name="adapter_resolver",
    group="hookline.adapter_resolvers",
    hook="resolve_adapter",
    bare="factory",
)

KINDS = tuple(each for each in list(vars().values()) if isinstance(each, PluginKind))
