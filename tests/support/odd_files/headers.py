# SPDX-License-Identifier: Apache-2.0
"""Odd versions, imports, functions, names and metadata."""

from __future__ import annotations

import onnx
from onnx import ModelProto, helper

from .odd import CASES, Odd, X, case, info, plain

for _opset in range(7, 29):
    CASES[f"opset_{_opset}"] = lambda opset=_opset: Odd(plain(opset=opset, ir=8))
for _ir in range(3, 14):
    CASES[f"ir_{_ir}"] = lambda ir=_ir: Odd(plain(ir=ir))


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
