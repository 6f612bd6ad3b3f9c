"""A CUDA error that stays: after it, every call of the process fails, so the process must end."""

import os
import sys
import threading

import torch

EXIT_CODE = 70  # BSD's EX_SOFTWARE
# While a stream is captured, nobody may wait for the whole device: the question would be an error.
CAPTURE_LOCK = threading.Lock()


def end_if_sticky(error: BaseException) -> None:
    """End the process if the GPU answers nothing any more; else do nothing.

    An illegal address or a device-side assert poisons the CUDA context for good. The process is
    ended at once, without clean-up, as if it were killed: its shards are tried again elsewhere.
    """
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    try:
        with CAPTURE_LOCK:
            torch.cuda.synchronize()
    except RuntimeError as answer:
        sys.stderr.write(f"headrace: the GPU is lost to this worker: {error!r}; {answer!r}\n")
        sys.stderr.flush()
        os._exit(EXIT_CODE)
