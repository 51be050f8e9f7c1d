"""The models of the benchmark of training steps, with random weights: nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from tilesmith.common.errors import MissingExtra
from zoo.torchvision_cpu import torchvision


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


def _resnet18() -> Step:
    vision = torchvision()
    if vision is None:
        raise MissingExtra("torchvision is not installed")
    labels = torch.randint(0, 1000, (8,))
    return Step(
        vision.models.resnet18(),
        (torch.randn(8, 3, 224, 224),),
        partial(torch.nn.functional.cross_entropy, target=labels),
    )


def _bert() -> Step:
    torchvision()  # transformers imports it where it is installed
    import transformers

    config = transformers.BertConfig(num_hidden_layers=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = transformers.BertModel(config, add_pooling_layer=False)
    wanted = torch.randn(1, 128, config.hidden_size)
    return Step(
        model,
        (torch.randint(0, config.vocab_size, (1, 128)),),
        lambda result: torch.nn.functional.mse_loss(
            result.last_hidden_state, wanted.to(result.last_hidden_state.dtype)
        ),
    )


STEPS: dict[str, Callable[[], Step]] = {"resnet18_batch8": _resnet18, "bert_4_layers_128": _bert}


def steps_of(name: str, seed: int = 0) -> Step:
    """A model in training, the same on each call."""
    torch.manual_seed(seed)
    step = STEPS[name]()
    step.module.train()
    return step
