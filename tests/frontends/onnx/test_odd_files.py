# SPDX-License-Identifier: Apache-2.0
"""Files as odd as exporters write them, judged by ONNX Runtime: what it loads and runs gives the
same numbers here; what it refuses is refused here, or gives what the standard says."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import openxrt
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
W = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@dataclass
class Odd:
    """A model, its inputs, and files beside it."""

    model: ModelProto
    feed: dict[str, np.ndarray] = field(default_factory=lambda: {"x": X})
    files: dict[str, bytes] = field(default_factory=dict)


CASES: dict[str, Callable[[], Odd]] = {}
RELU = np.maximum(X, 0)
# What ONNX Runtime refuses and OpenXRT runs: the output.
RIGHT: dict[str, np.ndarray] = {
    # Newer than this ONNX Runtime.
    "opset_26": RELU,
    "opset_27": RELU,
    "opset_28": RELU,
    "unused_import_of_a_future_ml": RELU,
    # ONNX Runtime takes nodes in any order, but not around bodies and in functions.
    "nodes_in_the_wrong_order_around_a_body": -(RELU + X),
    "function_with_nodes_in_the_wrong_order": X * 4,
    # Nothing depends on these.
    "nodes_of_one_name": -RELU,
    "ir_version_missing": RELU,
    "output_without_an_element_type": -RELU,
}


def info(name: str, dtype: int = FLOAT, shape: object = (2, 3)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, None if shape is None else list(shape))


def plain(
    nodes: list[onnx.NodeProto] | None = None,
    *,
    inputs: list[onnx.ValueInfoProto] | None = None,
    outputs: list[onnx.ValueInfoProto] | None = None,
    initializers: tuple[TensorProto, ...] = (),
    opset: int = 17,
    ir: int = 8,
) -> ModelProto:
    """y = Relu(x), or what is given."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="relu")] if nodes is None else nodes,
        "g",
        [info("x")] if inputs is None else inputs,
        [info("y")] if outputs is None else outputs,
        list(initializers),
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir, producer_name="odd"
    )


def case(make: Callable[[], Odd | ModelProto]) -> Callable[[], Odd | ModelProto]:
    def odd() -> Odd:
        made = make()
        return made if isinstance(made, Odd) else Odd(made)

    CASES[make.__name__] = odd
    return make


def weight(name: str = "w", value: np.ndarray = W) -> TensorProto:
    return numpy_helper.from_array(value, name)


ADD = helper.make_node("Add", ["x", "w"], ["y"])

for _opset in range(7, 29):
    CASES[f"opset_{_opset}"] = lambda opset=_opset: Odd(plain(opset=opset, ir=8))
for _ir in range(3, 14):
    CASES[f"ir_{_ir}"] = lambda ir=_ir: Odd(plain(ir=ir))


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


@case
def nodes_in_the_wrong_order() -> ModelProto:
    return plain(
        [
            helper.make_node("Add", ["a", "b"], ["y"]),
            helper.make_node("Neg", ["a"], ["b"]),
            helper.make_node("Relu", ["x"], ["a"]),
        ]
    )


@case
def nodes_in_the_wrong_order_around_a_body() -> Odd:
    def body(name: str, op: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node(op, [f"{name}_t"], [f"{name}_y"]),
            helper.make_node("Add", ["late", "x"], [f"{name}_t"]),
        ]
        return helper.make_graph(nodes, name, [], [info(f"{name}_y")])

    model = plain(
        [
            helper.make_node(
                "If", ["c"], ["y"], then_branch=body("t", "Neg"), else_branch=body("e", "Abs")
            ),
            helper.make_node("Relu", ["x"], ["late"]),
        ],
        inputs=[info("c", TensorProto.BOOL, []), info("x")],
    )
    return Odd(model, {"c": np.array(True), "x": X})


@case
def nodes_in_a_cycle() -> ModelProto:
    return plain(
        [helper.make_node("Add", ["x", "b"], ["y"]), helper.make_node("Neg", ["y"], ["b"])]
    )


@case
def node_twice() -> ModelProto:
    return plain([helper.make_node("Relu", ["x"], ["y"])] * 2)


@case
def nodes_of_one_name() -> ModelProto:
    return plain(
        [
            helper.make_node("Relu", ["x"], ["a"], name="n"),
            helper.make_node("Neg", ["a"], ["y"], name="n"),
        ]
    )


@case
def nodes_without_names_and_graph_without_a_name() -> ModelProto:
    model = plain([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])])
    model.graph.name = ""
    return model


@case
def node_reads_what_nobody_makes() -> ModelProto:
    return plain([helper.make_node("Add", ["x", "nothing"], ["y"])])


@case
def node_without_a_reader() -> ModelProto:
    return plain([helper.make_node("Neg", ["x"], ["dead"]), helper.make_node("Relu", ["x"], ["y"])])


@case
def optional_inputs_with_empty_names() -> Odd:
    top = weight("top", np.array(1.0, np.float32))
    return Odd(plain([helper.make_node("Clip", ["x", "", "top"], ["y"])], initializers=(top,)))


@case
def trailing_empty_names() -> ModelProto:
    return plain([helper.make_node("Clip", ["x", "", ""], ["y"])])


@case
def optional_output_with_an_empty_name() -> ModelProto:
    return plain([helper.make_node("Dropout", ["x"], ["y", ""])])


@case
def attribute_that_the_op_lacks() -> ModelProto:
    return plain([helper.make_node("Relu", ["x"], ["y"], consumed_inputs=[0])])


@case
def attribute_without_a_type() -> ModelProto:
    model = plain([helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)])
    model.graph.node[0].attribute[0].ClearField("type")
    return model


@case
def attribute_twice() -> ModelProto:
    model = plain([helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)])
    model.graph.node[0].attribute.append(helper.make_attribute("alpha", 0.25))
    return model


@case
def large_attribute() -> ModelProto:
    value = numpy_helper.from_array(np.tile(W, (1, 1))[None].repeat(1000, 0), "value")
    return plain(
        [
            helper.make_node("Constant", [], ["c"], value=value),
            helper.make_node("ReduceMean", ["c"], ["m"], axes=[0], keepdims=0),
            helper.make_node("Add", ["x", "m"], ["y"]),
        ]
    )


def _declared(output: onnx.ValueInfoProto, *values: onnx.ValueInfoProto) -> ModelProto:
    model = plain(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])],
        outputs=[output],
    )
    model.graph.value_info.extend(values)
    return model


@case
def output_declared_of_rank_0() -> ModelProto:
    return _declared(info("y", shape=[]))


@case
def output_declared_of_another_size() -> ModelProto:
    return _declared(info("y", shape=[2, 5]))


@case
def output_declared_of_higher_rank() -> ModelProto:
    return _declared(info("y", shape=[1, 2, 3]))


@case
def output_declared_of_another_element_type() -> ModelProto:
    return _declared(info("y", INT64))


@case
def output_without_a_type() -> ModelProto:
    return _declared(onnx.ValueInfoProto(name="y"))


@case
def output_without_a_shape() -> ModelProto:
    return _declared(info("y", shape=None))


@case
def output_without_an_element_type() -> ModelProto:
    model = _declared(info("y"))
    model.graph.output[0].type.tensor_type.elem_type = 0
    return model


@case
def value_declared_of_another_size() -> ModelProto:
    return _declared(info("y"), info("a", shape=[2, 5]))


@case
def value_declared_of_another_rank() -> ModelProto:
    return _declared(info("y"), info("a", shape=[]))


@case
def value_declared_of_another_element_type() -> ModelProto:
    return _declared(info("y"), info("a", INT64))


@case
def value_declared_twice() -> ModelProto:
    return _declared(info("y"), info("a"), info("a", shape=["n", 3]))


@case
def value_declared_that_does_not_exist() -> ModelProto:
    return _declared(info("y"), info("ghost", INT64, [7]))


@case
def value_of_a_body_declared_of_another_size() -> Odd:
    def body(name: str, op: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(op, ["x"], [f"{name}_y"])], name, [], [info(f"{name}_y", shape=[9])]
        )

    model = plain(
        [
            helper.make_node(
                "If", ["c"], ["y"], then_branch=body("t", "Neg"), else_branch=body("e", "Abs")
            )
        ],
        inputs=[info("c", TensorProto.BOOL, []), info("x")],
        outputs=[info("y", shape=None)],
    )
    return Odd(model, {"c": np.array(False), "x": X})


@case
def input_of_a_body_declared_of_another_size() -> Odd:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["more"]), helper.make_node("Neg", ["v"], ["w"])],
        "body",
        [info("i", INT64, []), info("go", TensorProto.BOOL, []), info("v", shape=[7, 7])],
        [info("more", TensorProto.BOOL, []), info("w", shape=[7, 7])],
    )
    count = weight("count", np.array(3, np.int64))
    model = plain(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)], initializers=(count,)
    )
    return Odd(model)


@case
def symbols_that_repeat() -> ModelProto:
    return plain(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        inputs=[info("x", shape=["n", "m"])],
        outputs=[info("y", shape=["n", "m"])],
    )


@case
def one_symbol_for_two_sizes_of_an_output() -> ModelProto:
    return plain(inputs=[info("x", shape=["n", 3])], outputs=[info("y", shape=["k", "k"])])


@case
def symbol_without_a_name() -> ModelProto:
    return plain(inputs=[info("x", shape=[None, 3])], outputs=[info("y", shape=[None, 3])])


@case
def input_with_a_negative_dimension() -> ModelProto:
    return plain(inputs=[info("x", shape=[-1, 3])], outputs=[info("y", shape=[-1, 3])])


@case
def input_without_a_shape() -> ModelProto:
    return plain(inputs=[info("x", shape=None)], outputs=[info("y", shape=None)])


@case
def input_without_a_reader() -> Odd:
    return Odd(plain(inputs=[info("x"), info("z")]), {"x": X, "z": X})


@case
def input_twice() -> ModelProto:
    return plain(inputs=[info("x"), info("x")])


@case
def output_is_an_input() -> ModelProto:
    return plain(outputs=[info("y"), info("x")])


@case
def output_is_an_initializer() -> ModelProto:
    return plain(outputs=[info("y"), info("w")], initializers=(weight(),))


@case
def output_twice() -> ModelProto:
    return plain(outputs=[info("y"), info("y")])


@case
def output_that_nobody_makes() -> ModelProto:
    return plain(outputs=[info("y"), info("ghost")])


@case
def no_nodes() -> ModelProto:
    return plain([], outputs=[info("x")])


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


@case
def training_info_and_metadata() -> ModelProto:
    model = plain()
    step = model.training_info.add()
    step.algorithm.CopyFrom(model.graph)
    for key, value in (("a", "1"), ("a", "2"), ("", "empty"), ("größe", "ü")):
        model.metadata_props.add(key=key, value=value)
    model.graph.metadata_props.add(key="g", value="1")
    model.graph.node[0].metadata_props.add(key="n", value="1")
    model.graph.quantization_annotation.add(tensor_name="x")
    return model


@case
def doc_strings_of_odd_bytes() -> ModelProto:
    model = plain()
    model.doc_string = model.graph.doc_string = "\x01\x7f ü \U0001f600 " + "long " * 10000
    model.graph.node[0].doc_string = "\n\r\t"
    return model


@case
def names_of_odd_characters() -> Odd:
    name = "a/b:c ü\n\t'\"\\ {}%s"
    model = plain(
        [helper.make_node("Relu", [name], ["y y"], name=name)],
        inputs=[info(name)],
        outputs=[info("y y")],
    )
    return Odd(model, {name: X})


@case
def no_imports() -> ModelProto:
    model = plain()
    del model.opset_import[:]
    return model


@case
def standard_domain_by_its_name() -> ModelProto:
    model = plain([helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")])
    model.opset_import[0].domain = "ai.onnx"
    return model


@case
def standard_domain_imported_by_its_name_alone() -> ModelProto:
    model = plain()
    model.opset_import[0].domain = "ai.onnx"
    return model


@case
def standard_domain_imported_twice() -> ModelProto:
    model = plain()
    model.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    return model


@case
def unused_imports_of_unknown_domains() -> ModelProto:
    model = plain()
    for domain in ("nobody.knows", "com.microsoft.nchwc", "ai.onnx.ml", "ai.onnx.training", "xrt"):
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


@case
def unused_import_of_a_future_ml() -> ModelProto:
    model = plain()
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 99))
    return model


@case
def opset_of_the_future() -> ModelProto:
    return plain(opset=99)


@case
def opset_0() -> ModelProto:
    return plain(opset=0)


@case
def op_that_nobody_knows() -> ModelProto:
    return plain([helper.make_node("Frobnicate", ["x"], ["y"])])


@case
def domain_that_is_not_imported() -> ModelProto:
    return plain([helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")])


def _with_function(
    node: onnx.NodeProto, *, domain: str = "mine", imported: bool = True
) -> ModelProto:
    function = helper.make_function(
        "mine",
        "Twice",
        ["a", "scale"],
        ["b"],
        [
            helper.make_node("Mul", ["t", "two"], ["b"]),
            helper.make_node("Add", ["a", "a"], ["t"]),
            helper.make_node("Constant", [], ["two"], value_float=2.0),
        ],
        [helper.make_opsetid("", 17)],
    )
    model = plain([node])
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    return model


@case
def function_of_an_own_domain() -> ModelProto:
    model = _with_function(helper.make_node("Twice", ["x", "x"], ["y"], domain="mine"))
    nodes = list(model.functions[0].node)
    del model.functions[0].node[:]
    model.functions[0].node.extend([nodes[2], nodes[1], nodes[0]])
    return model


@case
def function_with_nodes_in_the_wrong_order() -> ModelProto:
    return _with_function(helper.make_node("Twice", ["x", "x"], ["y"], domain="mine"))


@case
def function_that_nobody_calls() -> ModelProto:
    return _with_function(helper.make_node("Relu", ["x"], ["y"]))


@case
def ir_version_missing() -> ModelProto:
    model = plain()
    model.ClearField("ir_version")
    return model


@case
def fields_of_the_future() -> ModelProto:
    model = plain()
    # Field 1000, length-delimited: protobuf keeps what it does not know.
    return onnx.load_model_from_string(model.SerializeToString() + b"\xc2\x3e\x03abc")


@pytest.fixture(scope="module")
def outcomes() -> Iterator[None]:
    onnxruntime.set_default_logger_severity(4)
    yield
    onnxruntime.set_default_logger_severity(2)


@pytest.mark.usefixtures("outcomes")
@pytest.mark.parametrize("name", sorted(CASES))
def test_as_onnx_runtime_has_it(name: str, tmp_path: Path) -> None:
    odd = CASES[name]()
    path = tmp_path / "model.onnx"
    path.write_bytes(odd.model.SerializeToString())
    for file, content in odd.files.items():
        (tmp_path / file).write_bytes(content)
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        taken = {i.name for i in session.get_inputs()}
        taken |= {i.name for i in session.get_overridable_initializers()}
        feed = {key: value for key, value in odd.feed.items() if key in taken}
        expected = session.run(None, feed)
        refusal = None
    except Exception as error:  # of many kinds
        expected, refusal = None, error
    try:
        program = openxrt.load(path, engine="native", cache_dir="")
        found = list(program.run(odd.feed).values())
    except openxrt.Error as error:
        assert not isinstance(error, openxrt.InternalError), error
        assert refusal is not None, f"ONNX Runtime runs it, OpenXRT says: {error}"
        return
    if expected is None:
        assert name in RIGHT, f"OpenXRT runs it, ONNX Runtime says: {refusal}"
        expected = [RIGHT[name]]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
