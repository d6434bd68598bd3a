"""How values under other engines' names deviate from those of the engines themselves.

Labels, buckets and units are not repeated here: aliases say how these differ.
"""

from collections.abc import Mapping

from hookline_metrics.dialects import vllm_offload_texts

_QUEUE = (
    "none in value: the original's code, too, ends the queue at the first admission, "
    "though vLLM's documentation says the most recent SCHEDULED, for which there is "
    "hookline_request_last_scheduled_seconds"
)
_FIRST = (
    "from the first SCHEDULED as in vLLM's code; from the most recent, as in its "
    "documentation, it is hookline_request"
)
_EARLY = "observed when the interval is known, in vLLM when the request ends"
_ABORTS = (
    "includes requests that clients abandoned, which vLLM forgets before the engine's "
    "last output and does not count"
)
_TPOT = "requests with fewer than two tokens are not observed; vLLM records 0 for them"
_INTERVALS = (
    "one observation for each token, in vLLM for each output, whatever its tokens"
)
_RETRACTED = (
    "includes preemptions by failed KV loads and by sleep with the mode keep, where "
    "SGLang counts only those for lack of memory"
)
_DISAGGREGATION = (
    "for any connector, tiers and storage included, in SGLang only with disaggregation"
)
_STORAGE = "loaded straight into the KV cache, in SGLang into host memory first"
_CURRENT = (
    "up to date at each scrape, where SGLang sets it with batches of prompts and, by "
    "default, every 40 decode steps"
)
_WINDOW = (
    "over the last 60 seconds, in SGLang over the decode steps since its last log line"
)
_SINCE_START = "over the last 60 seconds, in version 0 since its start"
_LOG_INTERVAL = "over the last 10 seconds, in version 0 since its last log line"
_NO_RELEASE = (
    "with the label model_name; of LLM.sleep and LLM.wake_up as well, and there is no "
    "operation release_kv_cache_memory"
)
_PROPOSED = "proposed for vLLM by #54830, and not in this version of it"
_PROBES = "with the label model_name, and without probes under /live and /ready"

DEVIATIONS: Mapping[str, str] = {
    **vllm_offload_texts.DEVIATIONS,
    "vllm:num_requests_waiting": "up to date at each scrape, where vLLM's gauges "
    "move only with steps",
    "vllm:engine_sleep_state": "weights_offloaded is level 1, which keeps the weights "
    "where they are and releases the KV cache's memory; one state is always 1, as "
    "there is no release_kv_cache_memory",
    "vllm:sleep_mode_operation_duration_seconds": _NO_RELEASE,
    "vllm:sleep_mode_operations_in_flight": _NO_RELEASE,
    "vllm:cache_config_info": "with the label model_name; cache_dtype is the data type "
    "itself, never auto; "
    "user_specified_block_size tells whether the size differs from the default; "
    "num_cpu_blocks and kv_offloading_size are those of the tier in host memory, and "
    "kv_offloading_backend is its connector; fields of Mamba layers are None",
    "vllm:kv_block_idle_before_evict_seconds": "idle since no request holds the block, "
    "in vLLM since its last touch, so that blocks of long decodes look idle",
    "vllm:num_requests_kv_fetch_by_stage": "a queued request is waiting_to_start if "
    "its kv_transfer_params have do_remote_prefill, or once it was looked up",
    "vllm:request_success": f"{_ABORTS}; deadlines that passed count as abort, and the "
    "reason repetition does not exist",
    "vllm:request_prompt_tokens": _ABORTS,
    "vllm:request_generation_tokens": _ABORTS,
    "vllm:e2e_request_latency_seconds": f"{_ABORTS}; on a monotonic clock, where vLLM "
    "takes the wall clock",
    "vllm:time_to_first_token_seconds": "on a monotonic clock, where vLLM takes the "
    "wall clock",
    "vllm:request_queue_time_seconds": f"{_QUEUE}; {_EARLY}",
    "vllm:request_prefill_time_seconds": f"{_FIRST}_last_prefill_seconds; {_EARLY}",
    "vllm:request_inference_time_seconds": f"{_FIRST}_last_inference_seconds; "
    f"{_ABORTS}",
    "vllm:request_decode_time_seconds": "from the first token of all, preemptions "
    "included, as in vLLM's code; since the most recent SCHEDULED, as in its "
    f"documentation, it is hookline_request_last_decode_seconds; {_ABORTS}",
    "vllm:request_time_per_output_token_seconds": _TPOT,
    "vllm:inter_token_latency_seconds": _INTERVALS,
    "vllm:time_per_output_token_seconds": _INTERVALS,
    "vllm:iteration_tokens_total": "all tokens of each step, chunks of prompts "
    "included; vLLM counts a prompt whole in the step that ends its prefill",
    "vllm:time_in_queue_requests": _QUEUE,
    "vllm:spec_decode_draft_acceptance_rate": _SINCE_START,
    "vllm:spec_decode_efficiency": f"{_SINCE_START}; of a tree of drafts every token "
    "counts as if all could be accepted",
    "vllm:spec_decode_num_emitted_tokens": "the target model's token of a draft that "
    "ended its request counts",
    "vllm:cpu_cache_usage_perc": "version 0 shows its swap space, while the host tier "
    "keeps only blocks of prefixes",
    "vllm:cpu_prefix_cache_hit_rate": "in tokens beyond those of the local prefix "
    "cache; version 0 counts the blocks of its swap space",
    "vllm:avg_prompt_throughput_toks_per_s": _LOG_INTERVAL,
    "vllm:avg_generation_throughput_toks_per_s": _LOG_INTERVAL,
    "vllm:lora_requests_info": "with the label model_name; one series, of all engines, "
    "where vLLM leaves one for each combination of adapters and lists any adapter with "
    "requests as running and waiting; commas in names are %2C",
    **dict.fromkeys(
        (
            *("vllm:lora_adapter_load_seconds", "vllm:lora_adapter_loaded"),
            *("vllm:max_gpu_lora_adapters", "vllm:num_cpu_loaded_lora_adapters"),
            "vllm:num_gpu_loaded_lora_adapters",
        ),
        _PROPOSED,
    ),
    "vllm:num_requests_swapped": "version 0 counts requests whose KV is in its swap "
    "space",
    "http_requests": _PROBES,
    "http_request_duration_seconds": _PROBES,
    "http_request_duration_highr_seconds": _PROBES,
    "http_request_size_bytes": _PROBES,
    "http_response_size_bytes": _PROBES,
    "sglang:num_running_reqs": _CURRENT,
    "sglang:num_queue_reqs": f"{_CURRENT}; without requests that wait for a grammar or "
    "for KV, which have names of their own",
    "sglang:token_usage": _CURRENT,
    "sglang:gen_throughput": "tokens per second of a sliding window; SGLang divides "
    "the tokens between two log lines by the time between them",
    "sglang:cache_hit_rate": "over the most recent 1000 requests; SGLang shows the "
    "last prefill batch",
    "sglang:queue_time_seconds": _QUEUE,
    "sglang:per_stage_req_latency_seconds": "only the stage prefill_forward",
    "sglang:num_aborted_requests": "requests whose deadline passed are included",
    "sglang:http_responses": "status_code is the class, such as 2xx; SGLang has each "
    "code",
    "sglang:spec_verify_calls": "counted with each step; SGLang counts when the "
    "request ends",
    "sglang:cache_config_info": "only page_size and num_pages, which readers of the "
    "model server protocol take; SGLang 0.5.23 has dropped it",
    "sglang:time_per_output_token_seconds": "decode time / (generated tokens - 1), as "
    "request_time_per_output_token_seconds, which replaced it in SGLang",
    "sglang:num_retracted_requests": _RETRACTED,
    "sglang:num_retracted_input_tokens": _RETRACTED,
    "sglang:num_retracted_output_tokens": _RETRACTED,
    "sglang:num_retracted_reqs": "preempted requests that wait now; SGLang shows how "
    "many were retracted last since its gauges moved before, mostly 0",
    "sglang:evicted_tokens": "in full KV blocks; SGLang evicts nodes of its tree",
    "sglang:eviction_duration_seconds": "one observation for each step that evicts; "
    "SGLang has one for each call that makes room, of which a step has a few",
    "sglang:load_back_duration_seconds": "loads of any connector, one for each "
    "request; SGLang has only copies from host memory, several requests in one",
    "sglang:load_back_tokens": "counted when a load begins; SGLang counts when it ends",
    "sglang:prefetched_tokens": _STORAGE,
    "sglang:storage_prefetch_hit_tokens": f"counted when a load begins; {_STORAGE}",
    "sglang:num_decode_transfer_queue_reqs": _DISAGGREGATION,
    "sglang:num_prefill_inflight_queue_reqs": _DISAGGREGATION,
    "sglang:kv_transfer_latency_ms": f"{_DISAGGREGATION}; of loads only, at the "
    "instance that loads",
    "sglang:num_transfer_failed_reqs": _DISAGGREGATION,
    "sglang:hicache_dropped_tokens": "only the reason host_pressure: blocks are copied "
    "when they are evicted, never earlier",
    "sglang:cached_tokens": "counted at the first admission; SGLang counts when the "
    "request ends, names the backend behind storage, and counts as total only requests "
    "of unknown sources",
    "sglang:prefill_effective_tokens": "hits are counted at the first admission, input "
    "at the first token; SGLang counts with the batches of prompts, those of resumed "
    "requests included",
    "sglang:spec_accept_rate": _WINDOW,
    "sglang:spec_accept_length": _WINDOW,
}
"""The deviation by name in the dialect, without `_total`."""
