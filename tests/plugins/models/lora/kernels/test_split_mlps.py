"""A gated MLP's parts give what the whole layer gives, over the same weights."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from hookline_kernels import KernelError
from hookline_kernels.cpu import vector_gemm
from hookline_kernels.cpu.feed_forward import FeedForward
from hookline_kernels.cpu.vector_feed_forward import VectorFeedForward
from hookline_kernels.decoder.gpu_layer_ops import GpuLayerOps
from hookline_kernels.modules import gated
from hookline_kernels.modules.gated import FastGated, FusedGated, fast_gated
from hookline_kernels.modules.linears import FastLinear
from hookline_kernels.modules.pre_norm import Product
from hookline_kernels.quantized_weight import quantize
from hookline_lora.kernels.splitting import SplitMlp, split
from hookline_quantized.joining import quantized_linear
