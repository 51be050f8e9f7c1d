"""A whole model of PyTorch: what is covered, tuned, compiled, called with torch tensors, and trained by torch.compile.

    python examples/torch_model.py [trials]

Needs `pip install 'tilesmith[torch]'`; without torch it says so and ends.
"""

from __future__ import annotations

import sys
from typing import Any

import tilesmith


def main(trials: int = 64) -> None:
    """Explains, tunes, compiles, checks, trains."""
    try:
        import torch
    except ModuleNotFoundError:
        print("this example needs torch: pip install 'tilesmith[torch]'")
        return

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(32 * 8 * 8, 10),
    ).eval()  # fmt: skip
    x = torch.randn(1, 3, 16, 16)
    print(tilesmith.explain(module, (x,)))  # what is covered, what stays in torch and why, how it is cut

    model = tilesmith.from_torch(module, (x,))
    tilesmith.tune(model, trials=trials)  # the kernels share the trials
    compiled = tilesmith.compile(model)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)  # tensors in, tensors out
    print(compiled.profile(x))  # where the time goes
    print(compiled.provenance)
    train(torch, module)


def train(torch: Any, module: Any) -> None:
    """A few steps, forward and backward compiled."""
    step, losses = torch.compile(module.train(), backend="tilesmith"), []
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    images, classes = torch.randn(4, 3, 16, 16), torch.arange(4)
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(step(images), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print("loss", *(f"{loss:.3f}" for loss in losses))
    assert losses[-1] < losses[0]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
