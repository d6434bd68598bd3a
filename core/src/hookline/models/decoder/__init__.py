"""The usual decoder, run without the modules that `transformers` made it of.

Most families are one structure: embedding, layers of attention and feed-forward with an
RMSNorm before each, rotary positions, an output layer. `Decoder` runs it with few calls
a layer, each of which does much. Which model is one is told by its parts, and proved
by a trial against the model itself; others run as modules.
"""

from hookline.models.decoder.decoder import Decoder
from hookline.models.decoder.parts import NotDecoder

__all__ = ["Decoder", "NotDecoder"]
