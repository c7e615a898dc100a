# SPDX-License-Identifier: Apache-2.0
"""Odd constants, and where they lie."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import ModelProto, TensorProto, helper

from .odd import ADD, CASES, FLOAT, Odd, W, X, case, info, plain, weight


@case
def initializer_listed_as_input() -> ModelProto:
    return plain([ADD], inputs=[info("x"), info("w")], initializers=(weight(),), ir=3)


@case
def initializer_listed_as_input_of_ir_4() -> ModelProto:
    return plain([ADD], inputs=[info("x"), info("w")], initializers=(weight(),))


@case
def default_of_an_input_replaced() -> Odd:
    model = plain([ADD], inputs=[info("x"), info("w")], initializers=(weight(),))
    return Odd(model, {"x": X, "w": X})


@case
def initializer_missing_from_inputs_of_ir_3() -> ModelProto:
    return plain([ADD], initializers=(weight(),), ir=3)


@case
def initializer_of_another_shape_than_its_input() -> ModelProto:
    return plain([ADD], inputs=[info("x"), info("w", shape=[3])], initializers=(weight(),))


@case
def initializer_twice() -> ModelProto:
    return plain([ADD], initializers=(weight(), weight(value=W + 1)))


@case
def initializer_unused() -> ModelProto:
    return plain(initializers=(weight(), weight("v")))


@case
def initializer_without_a_name() -> ModelProto:
    return plain(initializers=(weight(""),))


@case
def initializer_is_made_by_a_node_too() -> ModelProto:
    nodes = [helper.make_node("Relu", ["x"], ["w"]), ADD]
    return plain(nodes, initializers=(weight(),))


def _typed(dtype: int, raw: bool, values: np.ndarray) -> ModelProto:
    tensor = TensorProto(name="w", data_type=dtype, dims=values.shape)
    if raw:
        tensor.raw_data = values.tobytes()
    elif values.dtype == np.float32:
        tensor.float_data.extend(values.ravel().tolist())
    elif values.dtype == np.float64:
        tensor.double_data.extend(values.ravel().tolist())
    elif values.dtype == np.int64:
        tensor.int64_data.extend(values.ravel().tolist())
    elif values.dtype in (np.uint32, np.uint64):
        tensor.uint64_data.extend(values.ravel().tolist())
    else:
        bits = (
            values.view(np.uint16)
            if values.dtype.itemsize == 2 and values.dtype.kind != "i"
            else values
        )
        tensor.int32_data.extend(bits.ravel().astype(np.int32).tolist())
    return plain(
        [
            helper.make_node("Cast", ["w"], ["c"], to=FLOAT),
            helper.make_node("Add", ["x", "c"], ["y"]),
        ],
        initializers=(tensor,),
    )


for _dtype, _values in {
    "float": W,
    "double": W.astype(np.float64),
    "float16": W.astype(np.float16),
    "bfloat16": W.astype(ml_dtypes.bfloat16),
    "int8": np.array([[-128, 0, 127]], np.int8),
    "uint8": np.array([[255, 0, 127]], np.uint8),
    "int16": np.array([[-32768, 0, 127]], np.int16),
    "uint16": np.array([[65535, 0, 127]], np.uint16),
    "int32": np.array([[-(2**31), 0, 127]], np.int32),
    "uint32": np.array([[2**32 - 1, 0, 127]], np.uint32),
    "int64": np.array([[-(2**40), 0, 127]], np.int64),
    "uint64": np.array([[2**40, 0, 127]], np.uint64),
    "bool": np.array([[True, False, True]]),
}.items():
    _number = TensorProto.DataType.Value(_dtype.upper())
    for _raw in (True, False):
        CASES[f"{'raw' if _raw else 'typed'}_{_dtype}"] = (
            lambda number=_number, raw=_raw, values=_values: Odd(_typed(number, raw, values))
        )


@case
def raw_data_too_short() -> ModelProto:
    model = plain([ADD], initializers=(weight(),))
    model.graph.initializer[0].raw_data = b"\0" * 20
    return model


@case
def raw_and_typed_data() -> ModelProto:
    model = plain([ADD], initializers=(weight(),))
    model.graph.initializer[0].float_data.extend([9.0] * 6)
    return model


@case
def typed_data_too_short() -> ModelProto:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2, 3], float_data=[1.0, 2.0])
    return plain([ADD], initializers=(tensor,))


@case
def scalar_of_shape_1() -> ModelProto:
    return plain([ADD], initializers=(weight(value=np.array([2], np.float32)),))


@case
def scalar_of_no_shape() -> ModelProto:
    tensor = TensorProto(name="w", data_type=FLOAT, float_data=[2.0])
    return plain([ADD], initializers=(tensor,))


@case
def empty_tensor() -> Odd:
    empty = weight(value=np.zeros((2, 0), np.float32))
    return Odd(
        plain([helper.make_node("Concat", ["x", "w"], ["y"], axis=1)], initializers=(empty,))
    )


@case
def sparse_initializer() -> ModelProto:
    values = weight("w", np.array([1, 2], np.float32))
    indices = weight("at", np.array([0, 4], np.int64))
    model = plain([ADD])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    return model


def _external(**entries: str) -> Odd:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=W.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return Odd(plain([ADD], initializers=(tensor,)), files={"w.bin": b"\0" * 8 + W.tobytes()})


@case
def external_data() -> Odd:
    return _external(offset="8", length="24")


@case
def external_data_to_the_end() -> Odd:
    return _external(offset="8")


@case
def external_data_with_a_checksum_that_is_wrong() -> Odd:
    return _external(offset="8", length="24", checksum="00")


@case
def external_data_beyond_the_end() -> Odd:
    return _external(offset="16", length="24")


@case
def external_data_of_another_length() -> Odd:
    return _external(offset="8", length="12")


@case
def external_data_missing() -> Odd:
    return _external(location="v.bin")
