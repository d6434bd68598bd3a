"""Loads and tries a `tokenizer.json`: `python tokenizer_probe.py FILE`.

It runs in a process of its own, because a hostile file can make the library loop, abort
or exhaust memory. It imports nothing of Hookline, so that it starts in a few hundredths
of a second. What it writes to standard output is the reason for which it refuses the
file, or nothing.
"""

import resource
import signal
import sys

CPU_SECONDS = 30
"""Processor time to load a file; the largest ones take two seconds."""
TRIAL_CPU_SECONDS = 5
MEMORY_BYTES = 6 * 2**30
MAX_EXPANSION = 16
MAX_ADDED_TOKENS = 4096

SAMPLES = (
    "",
    "Hello, world! 123\n\tdef f(x): return x\r\n",
    "a" * 64 + "!",
    "ab " * 4000,
    "x" * 20_000,
    " " * 20_000 + "\n" * 5000 + "!",
    "0123456789" * 500,
    "\u00e9e\u0301\u4e2d\u6587\u0639\u0631\u0628\u064a\U0001f600\u200d" * 50,
    "\ufdfa\x00\x7f\ufffd",
    "<|im_start|><s></s>[INST]<unk>",
)


def main(path: str) -> str:
    """Returns why the file is refused; empty if it is not."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - counts as loading

    _, largest = resource.getrlimit(resource.RLIMIT_AS)
    if largest == resource.RLIM_INFINITY or largest > MEMORY_BYTES:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    signal.setitimer(signal.ITIMER_PROF, TRIAL_CPU_SECONDS)
    for sample in SAMPLES:
        (encoding,) = tokenizer.encode_batch_fast([sample])
        if len(encoding.ids) > MAX_EXPANSION * len(sample) + MAX_ADDED_TOKENS:
            return f"it makes {len(encoding.ids)} tokens of {len(sample)} characters"
        tokenizer.decode(encoding.ids, skip_special_tokens=False)
    return ""


if __name__ == "__main__":
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    sys.stdout.write(main(sys.argv[1]))
