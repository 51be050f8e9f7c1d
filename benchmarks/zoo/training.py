"""The models of the benchmark of training steps, with random weights: nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from tilesmith.common.errors import MissingExtra
from zoo.torchvision_cpu import torchvision, transformers


@dataclass(frozen=True)
class Step:
    """A model in training, inputs, and what is minimised of its result."""

    module: torch.nn.Module
    inputs: tuple[torch.Tensor, ...]
    loss: Callable[[Any], torch.Tensor]

    def double(self) -> Step:
        """The same in float64."""
        inputs = tuple(x.double() if x.is_floating_point() else x for x in self.inputs)
        return Step(deepcopy(self.module).double(), inputs, self.loss)


def _images(name: str, batch: int, size: int) -> Step:
    """A classifier of torchvision, without what it leaves to chance."""
    vision = torchvision()
    if vision is None:
        raise MissingExtra("torchvision is not installed")
    model = vision.models.get_model(name, weights=None)
    for part in model.modules():
        if isinstance(part, (torch.nn.Dropout, vision.ops.StochasticDepth)):
            part.p = 0.0
    labels = torch.randint(0, 1000, (batch,))
    images = torch.randn(batch, 3, size, size)
    return Step(model, (images,), partial(torch.nn.functional.cross_entropy, target=labels))


def _bert() -> Step:
    config = transformers().BertConfig(num_hidden_layers=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = transformers().BertModel(config, add_pooling_layer=False)
    wanted = torch.randn(1, 128, config.hidden_size)
    return Step(
        model,
        (torch.randint(0, config.vocab_size, (1, 128)),),
        lambda result: torch.nn.functional.mse_loss(
            result.last_hidden_state, wanted.to(result.last_hidden_state.dtype)
        ),
    )


def _gpt() -> Step:
    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = transformers().GPT2Config(
        n_layer=4, n_embd=384, n_head=6, vocab_size=4000, n_positions=128, use_cache=False, **off
    )
    texts = torch.randint(0, config.vocab_size, (4, 65))
    return Step(
        transformers().GPT2LMHeadModel(config),
        (texts[:, :-1],),
        lambda result: torch.nn.functional.cross_entropy(result.logits.flatten(0, 1), texts[:, 1:].flatten()),
    )


STEPS: dict[str, Callable[[], Step]] = {
    "resnet18_batch8": partial(_images, "resnet18", 8, 224),
    "bert_4_layers_128": _bert,
    "mobilenet_v2_batch8": partial(_images, "mobilenet_v2", 8, 128),
    "convnext_tiny_batch4": partial(_images, "convnext_tiny", 4, 96),
    "swin_t_batch4": partial(_images, "swin_t", 4, 112),
    "gpt_4_layers_64_batch4": _gpt,
}


def steps_of(name: str, seed: int = 0) -> Step:
    """A model in training, the same on each call."""
    torch.manual_seed(seed)
    step = STEPS[name]()
    step.module.train()
    return step
