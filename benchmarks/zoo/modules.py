"""The models of the benchmark of whole models, with random weights: nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilesmith.common.errors import MissingExtra
from zoo.names import IMAGES, OTHERS, TOKENS
from zoo.torchvision_cpu import torchvision, transformers

Example = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]

_CACHE = 512  # places of the decoder's cache


class OneResult(torch.nn.Module):
    """A model whose results are a structure: one of them alone, the first if none is named, so that every runtime computes the
    same."""

    def __init__(self, inner: torch.nn.Module, name: str | int = 0) -> None:
        super().__init__()
        self.inner, self.name = inner, name

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Returns that result."""
        result: torch.Tensor = self.inner(*inputs)[self.name]
        return result


class RootMeanSquare(torch.nn.Module):
    """The normalisation of Llama."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of mean square one, times a weight."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class DecoderLayer(torch.nn.Module):
    """A layer of Llama for one new token: attention over a cache by groups of heads with rotated queries and keys, then the
    gated product."""

    def __init__(self, width: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.before, self.between = RootMeanSquare(width), RootMeanSquare(width)
        self.q = torch.nn.Linear(width, width, bias=False)
        self.k = torch.nn.Linear(width, groups * self.size, bias=False)
        self.v = torch.nn.Linear(width, groups * self.size, bias=False)
        self.o = torch.nn.Linear(width, width, bias=False)
        self.gate = torch.nn.Linear(width, inner, bias=False)
        self.up = torch.nn.Linear(width, inner, bias=False)
        self.down = torch.nn.Linear(inner, width, bias=False)
        angles = _CACHE / 10000 ** (torch.arange(0, self.size, 2) / self.size)
        self.register_buffer("cosine", torch.cos(angles).repeat(2))
        self.register_buffer("sine", torch.sin(angles).repeat(2))

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        """Turned to the place of the new token."""
        low, high = x.chunk(2, dim=-1)
        turned: torch.Tensor = x * self.cosine + torch.cat([-high, low], -1) * self.sine
        return turned

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The token behind the layer, its key and its value."""
        y = self.before(x)
        query = self.rotated(self.q(y).view(1, 1, self.heads, self.size).transpose(1, 2))
        key = self.rotated(self.k(y).view(1, 1, self.groups, self.size).transpose(1, 2))
        value = self.v(y).view(1, 1, self.groups, self.size).transpose(1, 2)
        seen = torch.nn.functional.scaled_dot_product_attention(
            query.reshape(1, self.groups, self.heads // self.groups, self.size),
            torch.cat([keys, key], 2),
            torch.cat([values, value], 2),
        )
        x = x + self.o(seen.reshape(1, 1, self.heads * self.size))
        y = self.between(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y)), key, value


class DecoderStep(torch.nn.Module):
    """One token behind a full cache: its logits, and the key and value of each layer."""

    def __init__(self, layers: int, width: int, heads: int, groups: int, inner: int, words: int) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(DecoderLayer(width, heads, groups, inner) for _ in range(layers))
        self.last = RootMeanSquare(width)
        self.head = torch.nn.Linear(width, words, bias=False)

    def forward(self, token: torch.Tensor, *cache: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The cache: keys and values of each layer, in turn."""
        x, made = self.words(token), []
        for layer, keys, values in zip(self.layers, cache[::2], cache[1::2], strict=True):
            x, key, value = layer(x, keys, values)
            made += [key, value]
        return (self.head(self.last(x)), *made)


def _image_model(name: str, batch: int = 1) -> Example:
    vision = torchvision()
    if vision is None:
        raise MissingExtra("the models of images need torchvision")
    if hasattr(vision.models.segmentation, name):
        module = getattr(vision.models.segmentation, name)(weights=None, weights_backbone=None)
        return OneResult(module, "out"), (torch.randn(batch, 3, 256, 256),)
    if hasattr(vision.models.video, name):
        return getattr(vision.models.video, name)(weights=None), (torch.randn(batch, 3, 8, 112, 112),)
    return getattr(vision.models, name)(weights=None), (torch.randn(batch, 3, 224, 224),)


def _token_model(name: str) -> Example:
    kind, task, size = TOKENS[name]
    module = getattr(transformers(), kind + task)(getattr(transformers(), f"{kind}Config")())
    return OneResult(module), (torch.randn(1, 3, size, size),)


def _language_model(kind: str, tokens: int, **settings: Any) -> Example:
    config = getattr(transformers(), f"{kind}Config")(**settings)
    if kind == "Bert":
        module = transformers().BertModel(config, add_pooling_layer=False)
    else:
        module = getattr(transformers(), f"{kind}LMHeadModel" if kind == "GPT2" else f"{kind}Model")(config)
    return OneResult(module), (torch.randint(0, config.vocab_size, (1, tokens)),)


def _lstm() -> Example:
    return OneResult(torch.nn.LSTM(512, 512, 2)), (torch.randn(64, 1, 512),)


def _llama_step() -> Example:
    layers, width, heads, groups = 8, 1024, 16, 4
    cache = [torch.randn(1, groups, _CACHE, width // heads) for _ in range(2 * layers)]
    module = DecoderStep(layers, width, heads, groups, inner=2816, words=32000)
    return module, (torch.tensor([[3]]), *cache)


MODELS: dict[str, Callable[[], Example]] = {
    **{name: lambda name=name: _image_model(name) for name in (*IMAGES, *OTHERS) if name not in TOKENS},  # type: ignore[misc]
    **{name: lambda name=name: _token_model(name) for name in TOKENS},  # type: ignore[misc]
    "bert_base": lambda: _language_model("Bert", 128),
    "gpt2": lambda: _language_model("GPT2", 128, use_cache=False),
    "distilbert": lambda: _language_model("DistilBert", 384),
    "lstm": _lstm,
    "llama_step": _llama_step,
    "resnet18_batch8": lambda: _image_model("resnet18", batch=8),
}


def example(name: str, seed: int = 0) -> Example:
    """A model for inference and its inputs, the same on each call. No parameter is left at a value of which nothing can be
    seen, as are scales of one, shifts of zero, and scales of layers that begin near zero."""
    torch.manual_seed(seed)
    module, inputs = MODELS[name]()
    module = module.eval().requires_grad_(False)
    for parameter, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if not tensor.is_floating_point() or "cosine" in parameter or "sine" in parameter:
            continue
        if "running_var" in parameter:
            tensor.uniform_(0.5, 1.5)
        elif tensor.dim() < 2:
            tensor.add_(torch.randn_like(tensor) * 0.1)
        elif tensor.abs().max() < 1e-4:
            tensor.normal_(0, 0.1)
    return module, inputs
