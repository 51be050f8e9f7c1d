"""From a file of ONNX to a model: one function of tensors for each node; what is known beforehand is computed while reading."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...common.errors import ArgumentError, TilesmithError
from ...tensor.origins import originating
from ...tensor.program import Origin, Tensor
from ..functions.function import NotCovered
from ..model import Model
from ..quantization.clamped import clamped_weights
from ..quantization.integers import integer_sums
from . import onnx_file as file
from .assemble import Assembler
from .faults import Faults
from .onnx_operators.control import BODIES, bodies_in, unrolled
from .onnx_operators.registry import Array, Held, Node, OnnxValue, converted, converters

# Elements of a known value that is computed with while reading; larger ones are constants of the model.
FOLDED = 1 << 10
GROWN = 1 << 14  # elements of what comes of such values; more is left to the functions of tensors
_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_GROWING = {"ConstantOfShape": 0, "Expand": 1, "Tile": 1}  # operator -> the input that says the size of the result


def from_onnx(source: str | os.PathLike[str] | Any, sizes: Mapping[str, int] | None = None, name: str = "") -> Model:
    """The model of an ONNX file, of opset 13 or later.

    Args:
        source: a path, with external data beside it, or an onnx.ModelProto.
        sizes: the size of each symbolic dimension of an input, by its name: {"batch": 1}; of one without a name by the
            input's name and the number of the axis: {"x.0": 1}.
        name: of the model; that of the file or graph, unless given.

    Initializers become constants with values. Errors: ArgumentError for a file that is no model, missing external data and
    sizes left open; one that lists all operators that are not covered, with their nodes; UserError without onnx.
    """
    proto = file.read_model(source)
    called = name or (Path(source).stem if isinstance(source, str | os.PathLike) else proto.graph.name) or "model"
    return clamped_weights(integer_sums(_OnnxImport(proto, file.named_sizes(sizes)).model(called)))


def open_sizes(source: str | os.PathLike[str], shapes: Sequence[tuple[str, Sequence[int]]]) -> dict[str, int]:
    """The sizes that a file leaves open, as shapes of its inputs say them.

    `shapes`: an input's name, or "" for the next one in order, and its shape. Errors: ArgumentError for inputs that there are
    not, of another rank, and for one size with two values.
    """
    graph = file.read_model(source).graph
    held = {one.name for one in graph.initializer}
    declared = {one.name: one for one in graph.input if one.name not in held}
    order = iter(declared)
    found: dict[str, int] = {}
    for name, shape in shapes:
        value = declared.get(name or next(order, ""))
        dims = list(value.type.tensor_type.shape.dim) if value is not None else []
        if value is None or len(dims) != len(shape):
            known = ", ".join(f"{one.name}[{', '.join(_dims(one))}]" for one in declared.values())
            raise ArgumentError(
                f"{source} has other inputs", expected=known, found=f"{name or 'an input'} of {list(shape)}"
            )
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
            key = dim.dim_param or f"{value.name}.{axis}"
            if not dim.HasField("dim_value") and found.setdefault(key, size) != size:
                raise ArgumentError(f"the size {key} has two values", found=f"{found[key]} and {size}")
    return found


def _dims(value: Any) -> list[str]:
    """The sizes of an input as the file has them."""
    return [
        str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in value.type.tensor_type.shape.dim
    ]


class _Unknown:
    """Stands for what a node that is refused would have computed: nodes behind it are looked at as far as that goes."""


_UNKNOWN = _Unknown()
Bindings = MutableMapping[str, Any]  # name -> Value, or _UNKNOWN


class _OnnxImport:
    """One file on its way to a model."""

    def __init__(self, proto: Any, sizes: dict[str, int]) -> None:
        self._graph = proto.graph
        self._versions = {one.domain.replace("ai.onnx", "") if one.domain == "ai.onnx" else one.domain: one.version
                          for one in proto.opset_import}  # fmt: skip
        self._sizes = sizes
        self._made = Assembler()
        self._faults = Faults()
        self._constants: dict[int, tuple[Array, Tensor]] = {}
        self._names: dict[int, tuple[Array, str]] = {}  # of known arrays that have names
        self._inside = 0  # how many bodies of functions are around

    def model(self, name: str) -> Model:
        """The model. Errors: one ArgumentError for all that is not covered."""
        scope: Bindings = {}
        self._initial(self._graph, scope)
        self._inputs(scope)
        wanted = [one.name for one in self._graph.output]
        self._run(self._graph.node, scope, wanted, self._versions)
        outputs = [(one.name, value) for one in self._graph.output if (value := self._output(one, scope)) is not None]
        if self._faults:
            raise self._faults.refusal("model")
        return self._made.model(outputs, name)

    def _initial(self, graph: Any, scope: Bindings) -> None:
        for tensor in graph.initializer:
            scope[tensor.name] = self._named(file.array_of(tensor), tensor.name)
        for sparse in graph.sparse_initializer:
            self._faults.add("sparse tensors", sparse.values.name)
            scope[sparse.values.name] = _UNKNOWN

    def _named(self, array: Array, name: str) -> Array:
        self._names.setdefault(id(array), (array, name))
        return array

    def _inputs(self, scope: Bindings) -> None:
        """Inputs of the model; an initializer of the same name is its value."""
        left: list[str] = []
        used: set[str] = set()
        for value in self._graph.input:
            if value.name in scope:
                continue
            if refused := file.type_refused(value):
                self._faults.add(refused, value.name)
                scope[value.name] = _UNKNOWN
                continue
            shape = self._shape(value, left, used)
            element = file.element_name(value.type.tensor_type.elem_type)
            dtype = file.dtype_named(element)
            if dtype is not None and (0 in shape or left):  # without elements it is known
                scope[value.name] = file.zeros(shape, dtype)
            elif dtype is not None:
                scope[value.name] = self._made.input(value.name, shape, dtype)
        if left:
            raise ArgumentError(
                "sizes are left open", expected=f"sizes={{{', '.join(f'{one!r}: ...' for one in dict.fromkeys(left))}}}",
                found=f"sizes={self._sizes}", advice="give each of them a number, on the command line as NAME=NUMBER",
            )  # fmt: skip
        if spare := [one for one in self._sizes if one not in used]:
            raise ArgumentError("sizes of what the model does not have", found=", ".join(spare))

    def _shape(self, value: Any, left: list[str], used: set[str]) -> tuple[int, ...]:
        found: list[int] = []
        if not value.type.tensor_type.HasField("shape"):
            self._faults.add("an input without a shape", value.name)
            return ()
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value"):
                found.append(dim.dim_value)
                continue
            key = dim.dim_param or f"{value.name}.{axis}"
            size = self._sizes.get(key)
            used.add(key)
            if size is None:
                left.append(key)
            elif type(size) is not int or size < 1:
                raise ArgumentError(f"the size of {key!r} is no positive integer", found=repr(size))
            found.append(size or 1)
        return tuple(found)

    def _run(self, nodes: Sequence[Any], scope: Bindings, wanted: Sequence[str], versions: Mapping[str, int]) -> None:
        """Computes nodes that something wanted needs, in order, into the scope."""
        needed = _needed(nodes, wanted)
        for number, node in enumerate(nodes):
            if number in needed:
                results = self._results(node, scope, versions)
                scope.update((name, value) for name, value in zip(node.output, results, strict=False) if name)

    def _results(self, node: Any, scope: Bindings, versions: Mapping[str, int]) -> Sequence[Any]:
        """Returns what a node computes; stand-ins where that is not covered."""
        name = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}:{node.op_type}"
        domain = "" if node.domain == "ai.onnx" else node.domain
        unknown = [_UNKNOWN] * len(node.output)
        try:
            inputs = [scope[one] if one else None for one in node.input]
        except KeyError as error:
            raise ArgumentError(f"{_label(node)} reads what nothing computes", found=str(error)) from None
        version = versions.get(domain, 1)
        if any(one is _UNKNOWN for one in inputs):
            if (
                name not in converters()
                and name not in BODIES
                and file.schema_of(node.op_type, domain, version) is None
            ):
                self._faults.add(name, _label(node))
            return unknown
        if file.predates(node.op_type, domain, version):
            self._faults.add(f"{name} of opset {version}, older than {file.OLDEST}", _label(node))
            return unknown
        try:
            with nullcontext() if self._inside else originating(_origin(node)):
                return self._computed(node, name, domain, version, inputs, scope, versions)
        except NotCovered as error:
            what = name if error.problem == name else f"{name} ({error.problem})"
            self._faults.add(what, _label(node))
        except TilesmithError as error:
            self._faults.add(f"{name} ({error.problem}{': ' + error.found if error.found else ''})", _label(node))
        return unknown

    def _computed(
        self, node: Any, name: str, domain: str, version: int, inputs: list[OnnxValue], scope: Bindings,
        versions: Mapping[str, int],
    ) -> Sequence[Any]:  # fmt: skip
        if name in BODIES:
            return self._controlled(node, inputs, scope, versions)
        if (known := self._folded(node, version, inputs)) is not None:
            return known
        convert = converters().get(name)
        if convert is None:
            return self._expanded(node, name, version, inputs, versions)
        attributes = {proto.name: file.attribute(proto) for proto in node.attribute}
        seen = Node(name, version, inputs, list(node.input), list(node.output), attributes, self._constant,
                    file.dtype_named, file.element_name)  # fmt: skip
        outcome = converted(convert, seen)
        results = outcome if isinstance(outcome, tuple | list) else (outcome,)
        for output, result in zip(node.output, results, strict=False):
            if isinstance(result, Tensor) and output:
                self._made.place(output, [result])
        if len(results) < len(node.output) and any(node.output[len(results) :]):
            raise NotCovered(f"its output {len(results)}")
        return results

    def _folded(self, node: Any, version: int, inputs: Sequence[OnnxValue]) -> Sequence[Array] | None:
        """The results of a node that depends on nothing but small known values."""
        if node.op_type == "CastLike" and isinstance(inputs[1], Tensor):  # of which only the dtype matters
            inputs = [inputs[0], file.zeros((), inputs[1].dtype)]
        arrays = [one for one in inputs if isinstance(one, np.ndarray)]
        if node.op_type != "CastLike" and any(not one.size for one in arrays):
            return self._without_elements(node, version, inputs)
        if len(arrays) < sum(one is not None for one in inputs) or node.op_type in _RANDOM:
            return None
        if node.op_type == "Identity" and arrays:
            return arrays
        bits = node.op_type == "DequantizeLinear"  # factors of products stay in few bits: these become sums of integers
        if (bits and arrays[0].ndim > 1) or sum(one.size for one in arrays) > (GROWN if bits else FOLDED):
            return None
        place = _GROWING.get(node.op_type)
        if (
            place is not None
            and prod(int(one) for one in arrays[place].reshape(-1)) * (place and arrays[0].size) > GROWN
        ):
            return None
        results = file.folded(node, version, inputs_of(inputs))
        if results is None or any(result.size > GROWN for result in results):
            return None
        for output, result in zip(node.output, results, strict=False):
            self._named(result, output)
        return results

    def _without_elements(self, node: Any, version: int, inputs: Sequence[OnnxValue]) -> Sequence[Array] | None:
        """The results of a node that reads a value without elements: where they have none either, no other input matters."""
        data = [isinstance(one, Tensor) for one in inputs]
        if any(isinstance(one, Held) for one in inputs):
            return None
        given = [file.zeros(one.shape, one.dtype) if isinstance(one, Tensor) else one for one in inputs]
        filled = [one for one in given if not isinstance(one, Held)]
        results = file.folded(node, version, filled)
        if results is None or (any(data) and any(result.size for result in results)):
            return None
        return results

    def _constant(self, array: Array) -> Tensor:
        """A known value as a tensor of the model, once for each. Errors: NotCovered for types that are not here."""
        held = self._constants.get(id(array))
        if held is None:
            dtype = file.dtype_named(array.dtype.name)
            if dtype is None:
                raise NotCovered(file.described(array.dtype.name))
            if not array.size:
                raise NotCovered("a tensor without elements")
            name = self._names[id(array)][1] if id(array) in self._names else "constant"
            held = array, self._made.constant(name, file.stored(array), dtype)
            self._constants[id(array)] = held
        return held[1]

    def _expanded(
        self, node: Any, name: str, version: int, inputs: Sequence[OnnxValue], versions: Mapping[str, int]
    ) -> Sequence[Any]:  # fmt: skip
        """A node by the body that its schema gives. Errors: NotCovered where there is none."""
        body = file.function_body(node, version, [_type_of(one) for one in inputs])
        if body is None or node.op_type in _RANDOM:
            raise NotCovered(name)
        nodes = file.with_attributes(body, {proto.name: proto for proto in node.attribute})
        scope: Bindings = dict(zip(body.input, [*inputs, *[None] * len(body.input)], strict=False))
        inner = {**versions, **{one.domain: one.version for one in body.opset_import}}
        wanted = [inside for inside, outside in zip(body.output, node.output, strict=False) if outside]
        self._inside += 1
        self._run(nodes, scope, wanted, inner)
        self._inside -= 1
        return [scope.get(one) for one in body.output]

    def _controlled(
        self, node: Any, inputs: list[OnnxValue], scope: Bindings, versions: Mapping[str, int]
    ) -> Sequence[Any]:  # fmt: skip
        """Branches and loops whose course is known, run now."""

        def run(graph: Any, given: Sequence[Any]) -> list[Any]:
            inner: Bindings = ChainMap({}, scope)
            self._initial(graph, inner)
            inner.update(zip((one.name for one in graph.input), given, strict=True))
            wanted = [one.name for one in graph.output]
            self._run(graph.node, inner, wanted, versions)
            return [inner[one] for one in wanted]

        attributes = {proto.name: file.attribute(proto) for proto in node.attribute}
        results, made = unrolled(node.op_type, attributes, inputs, run, self._tensor)
        for output, result in zip(node.output, results, strict=False):
            if output and any(result is one for one in made):
                self._made.place(output, [result])
        return results

    def _tensor(self, value: Any) -> Tensor:
        if isinstance(value, _Unknown | Held) or value is None:
            raise NotCovered("what it is made of")
        return value if isinstance(value, Tensor) else self._constant(value)

    def _output(self, declared: Any, scope: Bindings) -> Tensor | None:
        value = scope.get(declared.name, _UNKNOWN)
        if isinstance(value, _Unknown) or value is None:
            if not self._faults:
                self._faults.add("an output that nothing computes", declared.name)
            return None
        try:
            if isinstance(value, Held):
                raise NotCovered(file.described(value.name))
            tensor = value if isinstance(value, Tensor) else self._constant(value)
        except NotCovered as error:
            self._faults.add(error.problem, declared.name)
            return None
        said = file.dtype_named(file.element_name(declared.type.tensor_type.elem_type))
        if declared.type.tensor_type.elem_type and tensor.dtype != said:
            self._faults.add(f"an output of {tensor.dtype} that is declared otherwise", declared.name)
        return tensor


def inputs_of(values: Sequence[OnnxValue]) -> list[Array | None]:
    """Known values, for folding."""
    return [value if isinstance(value, np.ndarray) else None for value in values]


def _type_of(value: OnnxValue) -> tuple[str, Sequence[int]] | None:
    if value is None:
        return None
    if isinstance(value, Held):
        return value.name, value.shape
    return (file.numpy_name(value.dtype) if isinstance(value, Tensor) else value.dtype.name), value.shape


def _needed(nodes: Sequence[Any], wanted: Sequence[str]) -> set[int]:
    """Numbers of the nodes whose results something wanted is made of."""
    names, found = set(wanted), set()
    for number in reversed(range(len(nodes))):
        if any(output in names for output in nodes[number].output if output):
            found.add(number)
            names.update(_read(nodes[number]))
    return found


def _read(node: Any) -> Iterator[str]:
    """Names that a node reads, its graphs included."""
    yield from node.input
    for graph in bodies_in(node):
        yield from (one.name for one in graph.output)
        for inner in graph.node:
            yield from _read(inner)


def _label(node: Any) -> str:
    """Says how a node is called in errors."""
    return str(node.name or next((name for name in node.output if name), node.op_type))


_SCOPE = re.compile(r"'([^']*)'")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def _origin(node: Any) -> Origin:
    """Operator and layer, and the line of Python where the exporter noted it."""
    notes = {one.key: one.value for one in node.metadata_props} if hasattr(node, "metadata_props") else {}
    scopes = _SCOPE.findall(notes.get("pkg.torch.onnx.name_scopes", ""))
    layer = scopes[-2] if len(scopes) > 1 else node.name.strip("/").rpartition("/")[0].replace("/", ".") or node.name
    frames = [(path, int(line)) for path, line in _FRAME.findall(notes.get("pkg.torch.onnx.stack_trace", ""))]
    outside = [frame for frame in frames if "torch" not in Path(frame[0]).parts] or frames
    path, line = outside[-1] if outside else ("", 0)
    return Origin(node.op_type, layer, path, line)
