"""What is asked of onnx: files, values, attributes, bodies of functions, folding. The only importer of onnx in this room."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...common.errors import ArgumentError, UserError
from ...common.outside import let_through
from ...tensor.dtype import DType, bf16, boolean, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from .onnx_names import check_names

Array = np.ndarray[Any, Any]
OLDEST = 13  # opset

_DTYPES = {
    "float64": f64, "float32": f32, "float16": f16, "bfloat16": bf16, "int64": i64, "int32": i32, "int16": i16, "int8": i8,
    "uint64": u64, "uint32": u32, "uint16": u16, "uint8": u8, "bool": boolean,
}  # fmt: skip
_NUMPY = {dtype: name for name, dtype in _DTYPES.items()}
_REFUSED_PARTS = {"sequence_type": "sequences", "optional_type": "optional values", "map_type": "maps",
                  "sparse_tensor_type": "sparse tensors"}  # fmt: skip


def onnx_module() -> ModuleType:
    """onnx, imported now. Errors: UserError that says how to install it."""
    try:
        return import_module("onnx")
    except ModuleNotFoundError:
        raise UserError(
            "onnx is not installed", expected="onnx 1.16 or later", advice="pip install 'tilesmith[onnx]'"
        ) from None


def read_model(source: Any) -> Any:
    """The ModelProto of a path or proto, with the values of its external data, and with its own functions inlined.

    Errors: ArgumentError for a file that is no model, for external data that is missing, and for names that are no text.
    """
    onnx = onnx_module()
    if isinstance(source, str | os.PathLike):
        model = _loaded(onnx, Path(source))
    elif isinstance(source, onnx.ModelProto):
        model = source
        _check_inner(onnx, model)
    else:
        raise ArgumentError(
            "a model is a path or an onnx.ModelProto", expected="from_onnx('model.onnx')", found=type(source).__name__
        )
    check_names(model)
    if model.functions:
        model = import_module("onnx.inliner").inline_local_functions(model)
    return model


def _loaded(onnx: ModuleType, path: Path) -> Any:
    try:
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise ArgumentError(f"cannot read {path}", found=error.strerror or str(error)) from None
    except Exception as error:  # protobuf's DecodeError, of whichever of its implementations
        let_through(error)
        raise _no_model(path, str(error)) from None
    if not model.HasField("graph") or not model.opset_import or not (model.graph.node or model.graph.output):
        raise _no_model(path, "no graph, or no operator set")
    try:
        import_module("onnx.external_data_helper").load_external_data_for_model(model, str(path.parent))
    except Exception as error:  # FileNotFoundError, a checker's error, a path that leads outside
        let_through(error)
        raise ArgumentError(
            f"external data of {path} cannot be read", expected="files with the values beside the model",
            found=str(error).strip().partition("\n")[0][:300],
        ) from None  # fmt: skip
    return model


def _no_model(path: Path, why: str) -> ArgumentError:
    return ArgumentError(f"{path} is no ONNX model", expected="a file that onnx.save wrote", found=why[:200])


def _check_inner(onnx: ModuleType, model: Any) -> None:
    """A proto has no folder in which external data could be."""
    outside = onnx.TensorProto.EXTERNAL
    names = [tensor.name for tensor in model.graph.initializer if tensor.data_location == outside]
    if names:
        raise ArgumentError(
            "the proto has external data, which is not loaded", found=", ".join(names[:6]),
            advice="give the path of the file, or load it with onnx.load",
        )  # fmt: skip


def named_sizes(sizes: Mapping[str, int] | None) -> dict[str, int]:
    """The sizes that a person gives. Errors: ArgumentError where they have no names."""
    if not isinstance(sizes, Mapping | None):
        raise ArgumentError("sizes have names", expected="sizes={'batch': 1}", found=repr(sizes)[:80])
    return dict(sizes or {})


def type_refused(value: Any) -> str:
    """Says why a value of the graph's face is none of a tensor program; empty for a tensor that is."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return _REFUSED_PARTS.get(kind, "values without a type")
    name = element_name(value.type.tensor_type.elem_type)
    return "" if name in _DTYPES else described(name)


def described(name: str) -> str:
    """Says how an element type that has no dtype here is called in errors."""
    if name.startswith("complex"):
        return "complex numbers"
    return "strings" if name in ("str", "object", "string") else f"the dtype {name}"


def element_name(kind: int) -> str:
    """The name of NumPy for an element type of ONNX: "float32"; "string" for strings."""
    onnx = onnx_module()
    if kind == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(kind).name)
    except KeyError:
        return f"number {kind}"


def dtype_named(name: str) -> DType | None:
    """The dtype here of an element type by its name in NumPy, or None."""
    return _DTYPES.get(name)


def numpy_name(dtype: DType) -> str:
    """The name in NumPy of a dtype here."""
    return _NUMPY[dtype]


def zeros(shape: Sequence[int], dtype: DType) -> Array:
    """A known value; it says little where it has no elements."""
    return np.zeros(tuple(shape), _numpy_dtype(_NUMPY[dtype]))


def array_of(tensor: Any) -> Array:
    """The elements of a TensorProto; those of types that NumPy lacks in dtypes of ml_dtypes. Errors: ArgumentError where they
    do not fit its shape and type."""
    try:
        return np.asarray(import_module("onnx.numpy_helper").to_array(tensor))
    except (LookupError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"the values of {tensor.name or 'a constant'} cannot be read",
            expected="as many as its shape says, of a type that ONNX has",
            found=str(error),
        ) from error


def stored(array: Array) -> Array:
    """The array as models hold it: bfloat16 as its bits."""
    plain = np.ascontiguousarray(array).reshape(array.shape)
    return plain.view(np.uint16) if plain.dtype.name == "bfloat16" else plain


def attribute(proto: Any) -> Any:
    """The value of an AttributeProto: numbers, strings, lists, arrays; graphs as they are."""
    onnx = onnx_module()
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return array_of(value)
    if isinstance(value, list | tuple) or type(value).__name__.startswith("Repeated"):
        return [item.decode(errors="replace") if isinstance(item, bytes) else item for item in value]
    return value


def schema_of(operator: str, domain: str, version: int) -> Any:
    """The schema of an operator in a version of its domain, or None."""
    defs = import_module("onnx.defs")
    try:
        return defs.get_schema(operator, version, domain)
    except Exception as error:  # of a class that onnx has renamed
        let_through(error)
        return None


def predates(operator: str, domain: str, version: int) -> bool:
    """Says whether an operator of an old opset is another than that of the oldest one that is read."""
    if domain or version >= OLDEST:
        return False
    own, oldest = schema_of(operator, domain, version), schema_of(operator, domain, OLDEST)
    return own is None or oldest is None or own.since_version != oldest.since_version


def function_body(node: Any, version: int, types: Sequence[tuple[str, Sequence[int]] | None]) -> Any:
    """The FunctionProto that says what an operator is made of, for inputs of these types and shapes, or None."""
    onnx = onnx_module()
    schema = schema_of(node.op_type, node.domain, version)
    if schema is None:
        return None
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    protos = [_type_proto(onnx, one).SerializeToString() for one in types]
    body = onnx.FunctionProto()
    try:
        body.ParseFromString(schema.get_context_dependent_function(node.SerializeToString(), protos))
    except Exception as error:  # the schema has none for these inputs
        let_through(error)
        return None
    return body if body.node else None


def _type_proto(onnx: ModuleType, one: tuple[str, Sequence[int]] | None) -> Any:
    if one is None:
        return onnx.TypeProto()
    name, shape = one
    try:
        kind = onnx.helper.np_dtype_to_tensor_dtype(_numpy_dtype(name))
    except (TypeError, KeyError, ValueError):
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(kind, list(shape))


def _numpy_dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        found: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), name))
        return found


def with_attributes(body: Any, given: Mapping[str, Any]) -> list[Any]:
    """The nodes of a function's body with the attributes of the call in place of references, its defaults included."""
    onnx = onnx_module()
    defaults = {proto.name: proto for proto in body.attribute_proto}
    return [_bound(onnx, node, {**defaults, **given}) for node in body.node]


def _bound(onnx: ModuleType, node: Any, given: Mapping[str, Any]) -> Any:
    if not any(a.ref_attr_name or a.HasField("g") for a in node.attribute):
        return node
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for proto in node.attribute:
        if proto.ref_attr_name:
            if proto.ref_attr_name in given:
                made.attribute.add().CopyFrom(given[proto.ref_attr_name])
                made.attribute[-1].name = proto.name
            continue
        made.attribute.add().CopyFrom(proto)
        if proto.HasField("g"):
            inner = [_bound(onnx, one, given) for one in proto.g.node]
            del made.attribute[-1].g.node[:]
            made.attribute[-1].g.node.extend(inner)
    return made


def folded(node: Any, version: int, inputs: Sequence[Array | None]) -> list[Array] | None:
    """The results of a node whose inputs are known, as ONNX's own reference has them; None where it has none."""
    reference = import_module("onnx.reference")
    feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name and value is not None}
    try:
        with np.errstate(all="ignore"):
            results = reference.ReferenceEvaluator(node, opsets={node.domain: version}).run(None, feeds)
    except Exception as error:  # what it refuses is left to the functions of tensors, which say why
        let_through(error)
        return None
    if not all(isinstance(result, np.ndarray | np.generic) for result in results):
        return None
    return [np.asarray(result) for result in results]
