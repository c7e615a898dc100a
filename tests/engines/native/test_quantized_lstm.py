# SPDX-License-Identifier: Apache-2.0
"""DynamicQuantizeLSTM of the native engine against ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import openxrt
import pytest
from small_models import model_proto, tensor

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@dataclass(frozen=True)
class Case:
    """One node: sizes, types of its weights, and which of its inputs are there."""

    times: int = 7
    batch: int = 1
    columns: int = 10
    hidden: int = 13
    direction: str = "forward"
    dtype: type = np.int8
    per_channel: bool = False
    zero_point: bool = False
    bias: bool = True
    state: bool = False
    lengths: bool = False
    peephole: bool = False
    constant: bool = True
    outputs: tuple[int, ...] = (0, 1, 2)
    attributes: tuple[tuple[str, object], ...] = ()

    def model(self, open_sizes: bool = False) -> tuple[bytes, dict[str, np.ndarray]]:
        """The model's file and its inputs."""
        generator = np.random.default_rng(3)
        directions = 2 if self.direction == "bidirectional" else 1
        rows = 4 * self.hidden
        offset = 128 if self.dtype is np.uint8 else 0

        def floats(*shape: int) -> np.ndarray:
            return generator.normal(size=shape).astype(np.float32)

        def weights(depth: int) -> np.ndarray:
            steps = generator.integers(-128, 128, (directions, depth, rows))
            return (steps + offset).astype(self.dtype)

        def scales(depth: int) -> np.ndarray:
            shape = (directions, rows) if self.per_channel else (directions,)
            return (generator.uniform(0.5, 1.5, shape) / 128 / np.sqrt(depth)).astype(np.float32)

        zeros = np.full((directions, rows) if self.per_channel else (directions,), offset)
        if self.zero_point:
            zeros = zeros + 5
        zeros = zeros.astype(self.dtype)
        values = {
            "x": floats(self.times, self.batch, self.columns),
            "w": weights(self.columns),
            "r": weights(self.hidden),
            "ws": scales(self.columns),
            "wz": zeros,
            "rs": scales(self.hidden),
            "rz": zeros,
        }
        if self.bias:
            values["b"] = 0.2 * floats(directions, 2 * rows)
        if self.lengths:
            values["n"] = generator.integers(1, self.times + 1, self.batch).astype(np.int32)
        if self.state:
            values["h0"] = 0.5 * floats(directions, self.batch, self.hidden)
            values["c0"] = 0.5 * floats(directions, self.batch, self.hidden)
        if self.peephole:
            values["p"] = 0.2 * floats(directions, 3 * self.hidden)
        names = ["x", "w", "r", "b", "n", "h0", "c0", "p", "ws", "wz", "rs", "rz"]
        outputs = [f"y{i}" if i in self.outputs else "" for i in range(3)]
        node = onnx.helper.make_node(
            "DynamicQuantizeLSTM",
            [name if name in values else "" for name in names],
            outputs,
            domain="com.microsoft",
            hidden_size=self.hidden,
            direction=self.direction,
            **dict(self.attributes),
        )
        runtime = {"x", "n", "h0", "c0"} | (set() if self.constant else set(names))
        fed = {name: value for name, value in values.items() if name in runtime}
        shapes = {name: list(value.shape) for name, value in fed.items()}
        if open_sizes:
            shapes["x"][:2] = ["times", "batch"]
        proto = model_proto(
            [node],
            [
                tensor(name, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), shapes[name])
                for name, v in fed.items()
            ],
            [tensor(name, onnx.TensorProto.FLOAT, None) for name in outputs if name],
            [
                onnx.numpy_helper.from_array(value, name)
                for name, value in values.items()
                if name not in runtime
            ],
        )
        proto.opset_import.add(domain="com.microsoft", version=1)
        return proto.SerializeToString(), fed

    def session(self, model: bytes) -> onnxruntime.InferenceSession:
        """With a thread per sequence ONNX Runtime rounds the states of each by themselves."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.batch
        # Left alone, it lets pairs of products saturate on processors without VNNI.
        options.add_session_config_entry("session.x64quantprecision", "1")
        return onnxruntime.InferenceSession(model, options)


CASES = [
    Case(direction=direction, dtype=dtype, per_channel=per_channel, state=state)
    for direction in ("forward", "reverse", "bidirectional")
    for dtype in (np.int8, np.uint8)
    for per_channel in (False, True)
    for state in (False, True)
]
CASES += [
    Case(zero_point=True),
    Case(zero_point=True, dtype=np.uint8, direction="bidirectional"),
    Case(bias=False),
    Case(peephole=True, state=True),
    Case(peephole=True, direction="bidirectional"),
    Case(batch=3, direction="bidirectional", state=True),
    Case(batch=4, lengths=True),
    Case(batch=3, lengths=True, direction="reverse", state=True),
    Case(batch=3, lengths=True, direction="bidirectional", state=True),
    Case(times=1, hidden=1, columns=1),
    Case(times=20, hidden=256, columns=128, direction="bidirectional", state=True),
    Case(outputs=(1,)),
    Case(outputs=(0,), direction="bidirectional"),
    Case(constant=False),
    Case(attributes=(("clip", 0.4),)),
    Case(attributes=(("input_forget", 1),)),
    Case(attributes=(("activations", ["Sigmoid", "Tanh", "Relu"]),)),
]


def differs_by_few_steps(found: np.ndarray, wanted: np.ndarray) -> None:
    """A number that lies between two bytes may be rounded the other way: a step of 1/255."""
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    assert np.mean(np.abs(found - wanted)) < 2e-4


@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_as_onnxruntime(case: Case) -> None:
    model, fed = case.model()
    # Its sums are exact of constant weights alone.
    judged, judge_fed = replace(case, constant=True).model()
    session = case.session(judged)
    wanted = session.run(None, judge_fed)
    found = openxrt.load(model, engine="native").run(fed)
    for output, value in zip(session.get_outputs(), wanted, strict=True):
        differs_by_few_steps(found[output.name], value)


def test_open_sizes_and_the_cache(tmp_path: object) -> None:
    case = Case(direction="bidirectional", hidden=24)
    model, _ = case.model(open_sizes=True)
    generator = np.random.default_rng(5)
    for _ in range(2):
        program = openxrt.load(model, engine="native", cache_dir=tmp_path)
        for times in (3, 8, 5, 1):
            x = generator.normal(size=(times, 1, case.columns)).astype(np.float32)
            found = program.run({"x": x})
            for name, value in zip(
                ("y0", "y1", "y2"), case.session(model).run(None, {"x": x}), strict=True
            ):
                differs_by_few_steps(found[name], value)


def test_a_sequence_does_not_depend_on_the_others() -> None:
    """But for the scale of X, which is of the whole tensor."""
    case = Case(batch=3)
    model, fed = case.model(open_sizes=True)
    fed["x"][0, :, 0] = 4  # the same range for each
    fed["x"][1, :, 0] = -4
    fed["x"] = fed["x"].clip(-4, 4)
    program = openxrt.load(model, engine="native")
    together = program.run(fed)
    for i in range(case.batch):
        alone = program.run({"x": np.ascontiguousarray(fed["x"][:, i : i + 1])})
        np.testing.assert_array_equal(alone["y0"][:, :, 0], together["y0"][:, :, i])


def test_a_wrong_input_is_named() -> None:
    case = Case(state=True)
    model, fed = case.model()
    proto = onnx.load_from_string(model)
    for graph_input in proto.graph.input:
        for dim in graph_input.type.tensor_type.shape.dim:
            dim.dim_param = f"{graph_input.name}{dim.dim_value}"
    fed["h0"] = fed["h0"][:, :, :2]
    with pytest.raises(openxrt.Error, match="input 5"):
        openxrt.load(proto.SerializeToString(), engine="native").run(fed)
