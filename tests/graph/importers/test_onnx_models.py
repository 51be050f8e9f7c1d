"""Whole models as torch exports them, of random weights and reduced sizes: the program is what onnxruntime computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from zoo.torchvision_cpu import torchvision  # noqa: E402

from helpers.onnx_models import agrees_with_runtime  # noqa: E402
from helpers.torch_models import randomised  # noqa: E402
from tilesmith import from_onnx  # noqa: E402

IMAGES = {"resnet18": 72, "mobilenet_v2": 154}  # stages at most: a convolution and its bias are two


def exported(module: Any, args: tuple[Any, ...], folder: Path) -> Path:
    path = folder / "model.onnx"
    torch.onnx.export(module.float().eval(), args, str(path), dynamo=True, verbose=False)
    return path


@pytest.mark.parametrize("name", IMAGES)
def test_models_of_images(name: str, tmp_path: Path) -> None:
    vision = torchvision()
    if vision is None:
        pytest.skip("torchvision is not installed")
    module = randomised(getattr(vision.models, name)(weights=None))
    image = torch.randn(1, 3, 64, 64)
    path = exported(module, (image,), tmp_path)
    model = from_onnx(path)
    assert len(model.program.stages) <= IMAGES[name]
    agrees_with_runtime(model, path, image.numpy())


def test_a_vision_transformer(tmp_path: Path) -> None:
    vision = torchvision()
    if vision is None:
        pytest.skip("torchvision is not installed")
    module = randomised(
        vision.models.VisionTransformer(
            image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=96, num_classes=10
        )
    )
    image = torch.randn(1, 3, 32, 32)
    path = exported(module, (image,), tmp_path)
    agrees_with_runtime(from_onnx(path), path, image.numpy())


def test_a_bert(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=100,
        max_position_embeddings=64,
    )  # fmt: skip
    module = transformers.BertModel(config)
    words = torch.randint(0, 100, (1, 16))
    path = exported(module, (words,), tmp_path)
    model = from_onnx(path)
    agrees_with_runtime(model, path, words.numpy().astype(np.int64))
    assert any("attention" in stage.origin.layer for stage in model.program.stages)
