"""The models of the benchmark of whole models, by name; modules.py makes them, with torch."""

from __future__ import annotations

IMAGES = (
    "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "densenet121", "squeezenet1_1", "vgg16",
    "convnext_tiny", "vit_b_16", "swin_t",
)  # fmt: skip
NAMES = (*IMAGES, "bert_base", "gpt2", "distilbert", "lstm", "llama_step", "resnet18_batch8")
