"""Models that act out what users of such systems have reported."""

import torch


class Echo(torch.nn.Module):
    """Gives each row its own first word back, as a number; has memory for so many tokens only."""

    def __init__(self, memory_tokens):
        super().__init__()
        self.memory_tokens = memory_tokens

    def forward(self, input_ids, attention_mask):
        if input_ids.numel() > self.memory_tokens:
            raise torch.OutOfMemoryError("out of memory")
        return input_ids[:, 1:2].to(torch.float32)


def build_echo(device, dtype, memory_tokens):
    return Echo(memory_tokens)
