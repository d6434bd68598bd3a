"""vLLM's real `AsyncScheduler`, which its CPU platform never chooses, is followed."""

import json
import subprocess
from pathlib import Path

import pytest

from hookline_testing.vllm_server import MODEL, OFFLINE, VENV

pytestmark = pytest.mark.vllm
STEPS = """
import json, sys
from types import SimpleNamespace
import torch
from vllm import SamplingParams
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec as Spec
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager
from hookline_vllm import taps
from hookline_vllm.general import register
from hookline_vllm.steps import StepTeller

plans, results, outputs, failures = [], [], [], []

class Tap:
    def command(self, at, command): pass
    def planned(self, at, plan): plans.append(plan)
    def computed(self, at, plan, result):
        results.append((plan.step, dict(result.tokens)))
    def output(self, at, output): outputs.append(output)
    def close(self, error): pass

taps.step_teller = lambda scheduler: StepTeller(Tap(), scheduler, 0)
from hookline_vllm import scheduling
scheduling.complain = lambda what, failure: failures.append(what + failure.summary)
register()
model = ModelConfig(model=sys.argv[1], dtype="float32", max_model_len=64)
config = VllmConfig(
    model_config=model,
    cache_config=CacheConfig(block_size=16, enable_prefix_caching=False),
    scheduler_config=SchedulerConfig(
        max_num_seqs=4, max_num_batched_tokens=64, max_model_len=64,
        is_encoder_decoder=False,
    ),
)
config.scheduler_config.async_scheduling = True
config.cache_config.num_gpu_blocks = NUM_BLOCKS = 6
spec = Spec(block_size=16, num_kv_heads=1, head_size=1, dtype=torch.float32)
kind = config.scheduler_config.get_scheduler_cls()
scheduler = kind(
    vllm_config=config,
    kv_cache_config=KVCacheConfig(
        num_blocks=NUM_BLOCKS,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
    ),
    structured_output_manager=StructuredOutputManager(config),
    block_size=16,
    log_stats=True,
)
for name in ("a-1", "b-2", "c-3"):
    scheduler.add_request(
        Request(
            request_id=name,
            prompt_token_ids=list(range(14)),
            sampling_params=SamplingParams(max_tokens=20, ignore_eos=True),
            pooling_params=None,
        )
    )
ahead, told, preempted = [], 0, 0
for _ in range(200):
    if not scheduler.has_unfinished_requests() and not ahead:
        break
    plan = scheduler.schedule()
    scheduler.get_grammar_bitmask(plan)  # as the engine does
    preempted += len(plan.preempted_req_ids or ())
    ahead.append(plan)
    if len(ahead) == 2 or not plan.num_scheduled_tokens:
        plan = ahead.pop(0)
        names = list(plan.num_scheduled_tokens)
        result = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: at for at, name in enumerate(names)},
            sampled_token_ids=[[7] for _ in names],
        )
        for each in scheduler.update_from_output(plan, result).values():
            told += sum(len(output.new_token_ids) for output in each.outputs)
scheduler.schedule()
assert not scheduler.has_requests()
steps = [output for output in outputs if output.record is not None]
print(json.dumps({
    "is_async": issubclass(kind, AsyncScheduler),
    "failures": failures,
    "plans": len(plans),
    "in_order": [plan.step for plan in plans] == [step for step, _ in results],
    "records": [output.record.step for output in steps] == [p.step for p in plans],
    "told": told,
    "tokens": sum(len(each) for _, tokens in results for each in tokens.values()),
    "preempted": preempted,
    "preemptions": sum(len(output.events.preempted) for output in outputs),
    "ended": sum(len(output.events.finished) for output in outputs),
    "used": outputs[-1].stats.kv_blocks_used,
}))
"""


def test_async_scheduler_keeps_its_kind_and_plans_ahead(tmp_path: Path) -> None:
    """Two steps are in flight, some preempt, and each result finds its plan."""
    script = tmp_path / "steps.py"
    script.write_text(STEPS)
    done = subprocess.run(
        [str(Path(VENV, "bin", "python")), str(script), MODEL],
        env={**OFFLINE, "VLLM_PLUGINS": "hookline", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == []
    assert found["is_async"]
    assert found["plans"] > 20
    assert found["in_order"]
    assert found["records"]
    assert found["tokens"] == found["told"] == 60
    assert found["preemptions"] == found["preempted"] > 0
    assert (found["ended"], found["used"]) == (3, 0)
