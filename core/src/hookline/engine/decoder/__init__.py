"""Runs the usual decoder structure by kernels, without the modules of `transformers`.

Most families share one structure: embedding, layers of attention and feed-forward with
an RMSNorm before each, rotary positions, an output layer. `Decoder` runs it with few
calls per layer. A model's parts show whether it has this structure, and a trial against
the model itself proves it; other models run as modules.
"""

from hookline.engine.decoder.decoder import Decoder
from hookline.engine.decoder.parts import NotDecoder

__all__ = ["Decoder", "NotDecoder"]
