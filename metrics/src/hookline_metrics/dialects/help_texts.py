"""HELP of other dialects' names for which our metric's text would be wrong.

A name that has only some of our samples, other labels, or samples of several of our
metrics, says something else than the metric that it comes from.
"""

from collections.abc import Mapping

from hookline_metrics.dialects import vllm_offload_texts

_NO_PROBES = "Scrapes and probes are left out."

HELP: Mapping[str, str] = {
    **vllm_offload_texts.HELP,
    "sglang:cache_config_info": "Size and number of the KV cache's pages, as labels; "
    "the value is always 1.",
    "vllm:cache_config_info": "Configuration of the KV cache, as labels named like the "
    "fields of vLLM's; False or None for what Hookline does not have. The value is "
    "always 1.",
    "vllm:engine_sleep_state": "1 for the engine's current state, 0 for the others: "
    "awake, asleep without the KV cache's memory (weights_offloaded), or asleep "
    "without the weights as well (discard_all).",
    "vllm:num_gpu_loaded_lora_adapters": "LoRA adapters in slots of steps.",
    "vllm:num_cpu_loaded_lora_adapters": "LoRA adapters in main memory, those in slots "
    "included.",
    "sglang:lora_pool_slots_used": "Slots of steps with a LoRA adapter.",
    "vllm:sleep_mode_operation_duration_seconds": "Time from a call of sleep or "
    "wake_up (wake) to the last engine's reply; those that were refused or took too "
    "long are included.",
    "vllm:sleep_mode_operations_in_flight": "Calls of sleep and wake_up (wake) whose "
    "engines have not replied yet.",
    "vllm:num_requests_waiting": "Waiting requests: for capacity in the batch or the "
    "KV cache (preempted requests included), for a grammar, a KV transfer or an "
    "adapter.",
    "vllm:num_requests_waiting_by_reason": "Waiting requests by reason: capacity in "
    "the batch or the KV cache, preempted requests included (capacity), or a grammar, "
    "KV transfer or adapter that is not ready (deferred).",
    "vllm:prompt_tokens": "Prompt tokens, cached tokens included; counted at the "
    "request's first token.",
    "vllm:prompt_tokens_by_source": "Prompt tokens by the source of their KV: computed "
    "here (local_compute), local prefix cache (local_cache_hit), or KV connector "
    "(external_kv_transfer); counted at the request's first token. The sum over "
    "sources is all prompt tokens.",
    "vllm:prompt_tokens_cached": "Prompt tokens whose KV came from the local prefix "
    "cache or from a KV connector and was not computed; counted at the request's first "
    "token.",
    "vllm:prompt_tokens_cached_by_source": "Tokens found in a cache, by source: the "
    "local prefix cache (device), the place that a KV connector loads from (host, "
    "disk, p2p), or a connector that names none (external_unspecified).",
    "vllm:request_success": "Requests that the engine finished, by reason. Aborted "
    "requests and those whose deadline passed are included, both as abort; rejected "
    "requests are not.",
    "vllm:corrupted_requests": "Ended requests whose logits, hidden states or tokens "
    "were corrupted, such as by a NaN; with --on-non-finite error these ended by that.",
    "vllm:admission_rejections": "Requests rejected because a limit of the waiting "
    "queue was reached: that of requests (max_num_queued_reqs) or that of their prompt "
    "tokens (max_num_queued_tokens).",
    "http_requests": "HTTP requests answered, by route template, method and class of "
    "status; disconnects of clients count as 2xx. " + _NO_PROBES,
    "http_request_duration_seconds": "Time from an HTTP request's head to the last "
    "byte of its response, by route template and method. " + _NO_PROBES,
    "http_request_duration_highr_seconds": "Time from an HTTP request's head to the "
    "last byte of its response, of all routes and methods together. " + _NO_PROBES,
    "http_request_size_bytes": "Size of HTTP request bodies, by route template. "
    + _NO_PROBES,
    "http_response_size_bytes": "Size of HTTP response bodies, by route template. "
    + _NO_PROBES,
    "sglang:num_queue_reqs": "Requests that wait for capacity in the batch or the KV "
    "cache, preempted requests included.",
    "sglang:num_grammar": "Requests with a grammar.",
    "sglang:num_grammar_cache_hit": "Requests whose grammar had been compiled, or "
    "refused, before.",
    "sglang:num_grammar_timeout": "Grammars that take too much time or memory to "
    "compile.",
    "sglang:num_grammar_queue_reqs": "Requests that wait for a grammar.",
    "sglang:num_used_tokens": "Capacity in tokens of the KV blocks held by requests.",
    "sglang:kv_used_tokens": "Capacity in tokens of the KV blocks held by requests.",
    "sglang:kv_evictable_tokens": "Capacity in tokens of the free KV blocks that cache "
    "a prefix.",
    "sglang:kv_available_tokens": "Capacity in tokens of the empty KV blocks.",
    "sglang:realtime_tokens": "Prompt and recomputed tokens processed by the model "
    "(prefill_compute), prompt tokens found in a cache instead (prefill_cache), and "
    "decoded tokens, draft tokens included (decode).",
    "sglang:num_retracted_input_tokens": "Prompt tokens of requests when they were "
    "preempted. Each preemption counts them again.",
    "sglang:num_retracted_output_tokens": "Tokens generated for requests before they "
    "were preempted. Each preemption counts them again.",
    "sglang:hicache_host_used_tokens": "Tokens whose KV is stored in host memory.",
    "sglang:hicache_host_total_tokens": "Capacity of host memory for KV in tokens.",
    "sglang:hicache_backup_bytes": "Bytes of KV copied to host memory.",
    "sglang:hicache_backup_duration_seconds": "Time of each store of KV into host "
    "memory that succeeded.",
    "sglang:load_back_bytes": "Bytes of KV loaded from host memory.",
    "sglang:load_back_tokens": "Tokens whose KV is loaded from host memory; counted "
    "when the load begins.",
    "sglang:storage_prefetch_hit_tokens": "Tokens whose KV is loaded from disk; "
    "counted when the load begins.",
    "sglang:num_decode_transfer_queue_reqs": "Requests that wait for a KV transfer.",
    "sglang:num_prefill_inflight_queue_reqs": "Finished requests whose blocks are held "
    "until the KV connector has saved them.",
    "sglang:num_transfer_failed_reqs": "Loads by a KV connector that failed, those of "
    "aborted requests included.",
    "sglang:num_so_requests": "Finished requests whose output had to match a "
    "structure.",
    "sglang:cached_tokens": "Tokens found in a cache, by the tier that had them: the "
    "local prefix cache (device), host memory (host), or any other place that a KV "
    "connector loads from (storage).",
    "sglang:prefill_effective_tokens": "Prompt tokens that were computed (input), and "
    "tokens found in the local prefix cache (device_hit), in host memory (host_hit), "
    "or in any other place that a KV connector loads from (storage_hit).",
    "sglang:per_stage_req_latency_seconds": "Duration of a stage of a request. "
    "prefill_forward: first NEW_TOKENS - first SCHEDULED, observed at NEW_TOKENS; "
    "preemption included.",
    "sglang:num_aborted_requests": "Requests that were aborted or whose deadline "
    "passed.",
    "sglang:http_requests": "HTTP requests answered, by route template and method.",
}
"""HELP by name in the dialect, without `_total`."""
