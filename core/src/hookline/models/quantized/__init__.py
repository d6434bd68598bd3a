"""Models whose linear layers have weights in 8 or 4 bits.

Layers are quantized while a model is loaded (`rounding.py`), or are read from
checkpoints in the formats of GPTQ, AWQ and compressed-tensors. Kernels read packed
weights; embeddings, norms and biases stay as they are.
"""
