"""The models of the benchmark of whole models, by name; modules.py makes them, with torch."""

from __future__ import annotations

IMAGES = (
    "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "densenet121", "squeezenet1_1", "vgg16",
    "convnext_tiny", "vit_b_16", "swin_t",
)  # fmt: skip
NAMES = (*IMAGES, "bert_base", "gpt2", "distilbert", "lstm", "llama_step", "resnet18_batch8")

# Images that become tokens and images again, by the names that transformers has for them.
TOKENS = {"segformer_b0": ("Segformer", "ForSemanticSegmentation", 256), "pvt_v2_b0": ("PvtV2", "Model", 224)}
# Seen in other ways, raced where asked for: convolutions in groups, channels that are shuffled, windows far apart, films.
OTHERS = (
    "alexnet", "mnasnet1_0", "regnet_x_1_6gf", "regnet_y_400mf", "resnext50_32x4d", "shufflenet_v2_x1_0",
    "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "r3d_18", "mc3_18", *TOKENS,
)  # fmt: skip

NARROW = (
    "mobilenet_v2@qdq", "mobilenet_v2@qdq7", "resnet50@qdq", "resnet50@qdq7", "bert_base@qdq", "vit_b_16@bf16", "gpt2@bf16",
    "llama_step@int4",
)  # fmt: skip
# Largest error against the float64 model, of the largest value. Random weights are the hardest there are for few bits.
AGREEMENT = {"": 1e-3, "qdq": 0.1, "qdq7": 0.1, "bf16": 0.05, "int4": 0.6}


def scheme_of(name: str) -> str:
    """The scheme of a model in fewer bits (narrow.py); "" for one in float32."""
    return name.partition("@")[2]
