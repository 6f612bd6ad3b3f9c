"""Small torch modules that stand in for a user's own model; the workers import them by name."""

import os
import pathlib
import signal
import sys
import time

import torch


class Tiny(torch.nn.Module):
    """Embeds tokens at random but the same each time; misbehaves on demand."""

    def __init__(self, dim, raise_on, nan_on, die_once, sleep_s, scale):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(30_522, dim, generator=generator) * scale
        self.table = torch.nn.Embedding.from_pretrained(weight)
        self.raise_on, self.nan_on, self.die_once, self.sleep_s = (
            raise_on,
            nan_on,
            die_once,
            sleep_s,
        )

    def forward(self, input_ids, attention_mask):
        time.sleep(self.sleep_s)
        if self.die_once is not None and not pathlib.Path(self.die_once).exists():
            pathlib.Path(self.die_once).touch()
            os._exit(1)
        if self.raise_on is not None and (input_ids == self.raise_on).any():
            raise ValueError("this text is a secret")
        hidden = self.table(input_ids)
        if self.nan_on is not None:
            hidden = hidden.masked_fill((input_ids == self.nan_on)[..., None], torch.nan)
        return hidden


def build(
    device,
    dtype,
    dim=8,
    raise_on=None,
    nan_on=None,
    die_once=None,
    sleep_s=0.0,
    scale=1.0,
    chatter=None,
):
    if chatter:
        sys.stdout.write(chatter + "\n")
    return Tiny(dim, raise_on, nan_on, die_once, sleep_s, scale).to(device, dtype)


class Poison(Tiny):
    """Does what no exception handler sees, at a row that has a token."""

    def __init__(self, on, does, sleep_s):
        super().__init__(8, None, None, None, sleep_s, 1.0)
        self.on, self.does = on, does

    def forward(self, input_ids, attention_mask):
        if (input_ids == self.on).any():
            if self.does == "die":  # as by the kernel, when memory is out
                os.kill(os.getpid(), signal.SIGKILL)
            if self.does == "hang":
                time.sleep(600)
            if self.does == "exit":
                sys.exit("this text is a secret")
            if self.does == "explode":
                torch.empty(1 << 60, dtype=torch.int8)
        return super().forward(input_ids, attention_mask)


def build_poison(device, dtype, on, does, sleep_s=0.0):
    return Poison(on, does, sleep_s).to(device, dtype)


class OneClass(Tiny):
    """A classifier of one class: its logit is a number of the first word."""

    def forward(self, input_ids, attention_mask):
        return super().forward(input_ids, attention_mask)[:, 1, :1]


def build_one_class(device, dtype):
    return OneClass(8, None, None, None, 0.0, 1.0).to(device, dtype)


def burst(device, dtype):
    raise RuntimeError("no such weights\nand a second line")


class Odd(torch.nn.Module):
    """Gives what no task takes."""

    def forward(self, input_ids, attention_mask):
        return {"something": input_ids}


def odd(device, dtype):
    return Odd()


def not_a_module(device, dtype):
    return 42


def die_at_once(device, dtype):
    os._exit(1)
