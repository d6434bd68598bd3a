"""Compiles the GPU's kernel for an H100, without one, and prints its shared memory."""

from typing import Any

import torch
import triton  # type: ignore[import-untyped]
from triton.backends.compiler import GPUTarget  # type: ignore[import-untyped]

from hookline_lora.kernels import gpu_kernel
from hookline_lora.kernels.gpu_site import GpuSite
from hookline_lora.kernels.rows import StepRows
from hookline_lora.kernels.slices import Slice


class Driver:
    """Pretends that there is an H100."""

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0


def compile_instead(
    kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any
) -> None:
    options |= {"grid": grid, "warmup": True}
    print(kernel.run(*arguments, **options).metadata.shared)  # noqa: T201


triton.runtime.driver.set_active(Driver())
vars(gpu_kernel)["launch"] = compile_instead
for dtype in (torch.bfloat16, torch.float16, torch.float32):
    for tokens in (16, 512):
        site = GpuSite(896, [Slice(0, 896), Slice(896, 128)], dtype, 8, "cpu")
        values, output = (
            torch.zeros(tokens, each, dtype=dtype) for each in (896, 1024)
        )
        site.add(output, values, StepRows(tokens, 8))
