"""tilesmith.explain: what is covered, what stays in torch and why, how a model is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ArgumentError
from tilesmith.graph.model import Model


def test_a_program_of_one_kernel_is_searched_whole() -> None:
    found = ts.explain(ts.ops.matmul(m=24, n=24, k=24))
    assert found.cuts[0].whole and "the program: 1 stages, searched as one kernel" in str(found)


def product(v: Any, w: Any, k: Any) -> Any:
    return lambda i, j: ts.sum(v[i, k] * w[k, j], k)


def flat(v: Any) -> Any:
    return lambda i: v[i // 16, i % 16]


def folded(v: Any) -> Any:
    return lambda i, j: v[i * 16 + j]


def test_a_model_tells_its_kernels_and_what_costs_nothing() -> None:
    x, w = ts.placeholder((8, 16), name="x"), ts.constant((16, 16), name="w")
    scaled = ts.compute((16, 16), lambda i, j: w[i, j] * 2, name="scaled")
    value: Any = x
    for number in range(2):
        k = ts.reduce_axis(16, "k")
        value = ts.compute((8, 16), product(value, scaled, k), name=f"y{number}")
        value = ts.compute((128,), flat(value), name=f"flat{number}")
        value = ts.compute((8, 16), folded(value), name=f"back{number}")
    program = ts.program(ts.compute((8, 16), lambda i, j: ts.exp(value[i, j]), name="z"))
    (cut,) = ts.explain(Model(program, {"w": np.zeros((16, 16), np.float32)}, "net")).cuts
    assert not cut.whole and cut.stages == 8 and cut.prepared == 1
    assert sum(kernel.count for kernel in cut.kernels) >= 2
    assert "1 stages depend on constants alone" in str(cut) and "net: 8 stages, cut into" in str(cut)


def test_what_is_no_model_is_told() -> None:
    with pytest.raises(ArgumentError, match="that is no model"):
        ts.explain("resnet18")


def test_a_module_says_what_stays_in_torch_and_why() -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            return self.second(torch.linalg.inv(self.first(x).relu() + torch.eye(16)))

    found = ts.explain(Net().eval(), (torch.randn(16, 16),))
    (graph,) = found.graphs
    assert (
        graph.title == "inference"
        and graph.covered + graph.views + sum(len(nodes) for _, _, nodes in graph.left) == graph.operators
    )
    assert [operator for operator, _, _ in graph.left if "linalg_inv" in operator]
    assert len(graph.parts) == 2 and "stays in torch: linalg_inv_ex.default" in str(found)


def test_a_module_in_training_has_a_backward_graph_and_keeps_its_gradients() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    found = ts.explain(module, (torch.randn(4, 8),))
    assert [graph.title for graph in found.graphs] == ["forward", "backward"]
    assert all(graph.covered + graph.views == graph.operators for graph in found.graphs), str(found)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_where_torch_breaks_a_graph_is_told() -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            y = x.exp()
            torch._dynamo.graph_break()
            return y.sin()

    found = ts.explain(Net().eval(), (torch.randn(4),))
    assert len(found.graphs) == 2 and found.breaks and "torch breaks the graph" in str(found)
