"""Whole models, of random weights and reduced sizes: the program that is imported is what eager torch computes, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from zoo.torchvision_cpu import torchvision  # noqa: E402

from helpers.torch_models import agrees, randomised  # noqa: E402
from tilesmith import from_torch  # noqa: E402

_ROTARY = 1e-6  # their angles are float32 in eager torch, whatever the model is in

IMAGES = {
    "resnet18": 32, "mobilenet_v2": 32, "squeezenet1_1": 32, "mobilenet_v3_large": 32, "convnext_tiny": 32,
}  # fmt: skip
LARGE = {"resnet50": 64, "efficientnet_b0": 64, "densenet121": 64, "vgg16": 32, "swin_t": 64}


def image_model(name: str, size: int) -> None:
    vision = torchvision()
    if vision is None:
        pytest.skip("torchvision is not installed")
    module = randomised(getattr(vision.models, name)(weights=None))
    args = (torch.randn(1, 3, size, size, dtype=torch.float64),)
    agrees(from_torch(module, args), module, args)


@pytest.mark.parametrize("name", IMAGES)
def test_models_of_images(name: str) -> None:
    image_model(name, IMAGES[name])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", LARGE)
def test_larger_models_of_images(name: str) -> None:
    image_model(name, LARGE[name])


def test_a_vision_transformer() -> None:
    vision = torchvision()
    if vision is None:
        pytest.skip("torchvision is not installed")
    module = randomised(
        vision.models.VisionTransformer(
            image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=96, num_classes=10
        )
    )
    args = (torch.randn(2, 3, 32, 32, dtype=torch.float64),)
    agrees(from_torch(module, args), module, args)


def bert(tr: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    config = tr.BertConfig(
        num_hidden_layers=2, hidden_size=48, num_attention_heads=4, intermediate_size=80, vocab_size=50
    )
    seen = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
    return tr.BertModel(config), (torch.randint(0, 50, (2, 9)),), {"attention_mask": seen}


def gpt2(tr: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    config = tr.GPT2Config(
        n_layer=2, n_embd=48, n_head=4, vocab_size=50, use_cache=False, bos_token_id=0, eos_token_id=0
    )
    return tr.GPT2LMHeadModel(config), (torch.randint(0, 50, (1, 9)),), {}


def distilbert(tr: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    config = tr.DistilBertConfig(n_layers=2, dim=48, n_heads=4, hidden_dim=80, vocab_size=50)
    return tr.DistilBertModel(config), (torch.randint(0, 50, (1, 9)),), {}


def llama_step(tr: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    config = tr.LlamaConfig(
        hidden_size=48, num_attention_heads=4, num_key_value_heads=2, intermediate_size=80, num_hidden_layers=2,
        vocab_size=50,
    )  # fmt: skip

    class Step(torch.nn.Module):
        """One token behind a cache of keys and values; the longer cache is a result too."""

        def __init__(self) -> None:
            super().__init__()
            self.model = tr.LlamaForCausalLM(config)

        def forward(self, token: Any, place: Any, *cache: Any) -> tuple[Any, ...]:
            known = tr.DynamicCache(list(zip(cache[::2], cache[1::2], strict=True)))
            out = self.model(token, position_ids=place, past_key_values=known, use_cache=True)
            return (out.logits, *(t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)))

    cache = [torch.randn(1, 2, 7, 12, dtype=torch.float64) for _ in range(4)]
    return Step(), (torch.tensor([[3]]), torch.tensor([[7]]), *cache), {}


@pytest.mark.parametrize(
    ("make", "close"), [(bert, 1e-10), (gpt2, 1e-10), (distilbert, 1e-10), (llama_step, _ROTARY)],
    ids=["bert", "gpt2", "distilbert", "llama_step"],
)  # fmt: skip
def test_models_of_language(make: Callable[[Any], tuple[Any, tuple[Any, ...], dict[str, Any]]], close: float) -> None:
    transformers = pytest.importorskip("transformers")
    torchvision()  # which transformers imports
    module, args, kwargs = make(transformers)
    module = randomised(module)
    agrees(from_torch(module, args, kwargs), module, args, kwargs, close)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: torch.nn.LSTM(6, 5, 2), (4, 3, 6)),
        (lambda: torch.nn.LSTM(6, 5, 2, bias=False, bidirectional=True, batch_first=True), (3, 4, 6)),
        (lambda: torch.nn.LSTM(6, 5), (4, 6)),
        (lambda: torch.nn.GRU(6, 5, 2, bidirectional=True), (4, 3, 6)),
        (lambda: torch.nn.RNN(6, 5, nonlinearity="relu"), (4, 3, 6)),
        (lambda: torch.nn.RNN(6, 5, batch_first=True), (3, 4, 6)),
    ],
    ids=["lstm", "lstm, both ways", "lstm, no batch", "gru", "rnn relu", "rnn"],
)
def test_recurrent_layers(layer: Callable[[], Any], shape: tuple[int, ...]) -> None:
    module, args = randomised(layer()), (torch.randn(*shape, dtype=torch.float64),)
    agrees(from_torch(module, args), module, args)
