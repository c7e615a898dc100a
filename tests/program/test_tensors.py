# SPDX-License-Identifier: Apache-2.0
"""What may be passed as a tensor, what comes back, and which memory is shared."""

import array
import gc
import weakref

import ml_dtypes
import numpy as np
import openxrt
import pytest
from on_engine import load_on
from onnx import TensorProto, helper
from small_models import identity_model, make_model, tensor

DTYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
    TensorProto.INT8: np.int8,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT16: np.int16,
    TensorProto.UINT16: np.uint16,
    TensorProto.INT32: np.int32,
    TensorProto.UINT32: np.uint32,
    TensorProto.INT64: np.int64,
    TensorProto.UINT64: np.uint64,
    TensorProto.BOOL: np.bool_,
    TensorProto.COMPLEX64: np.complex64,
    TensorProto.COMPLEX128: np.complex128,
}


@pytest.fixture(scope="module")
def relu() -> openxrt.Program:
    """y = Relu(x), float32 of any shape."""
    model = make_model(
        [helper.make_node("Relu", ["x"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["A", "B"])],
        [tensor("y", TensorProto.FLOAT, ["A", "B"])],
    )
    return openxrt.load(model, engine="native")


@pytest.mark.parametrize("onnx_type", DTYPES, ids=lambda t: TensorProto.DataType.Name(t))
def test_every_dtype_goes_in_and_comes_out(onnx_type: int) -> None:
    # An odd count: the last byte of packed elements is half used.
    values = np.array([[0, 1, 2], [3, 1, 0], [1, 2, 3]]).astype(DTYPES[onnx_type])
    program = openxrt.load(identity_model(onnx_type, [3, 3]), engine="native")
    result = program(values)
    assert result.dtype == values.dtype
    assert result.shape == values.shape
    assert result.tobytes() == values.tobytes()


def test_negative_int4_keeps_its_sign() -> None:
    values = np.array([-8, -1, 7], ml_dtypes.int4)
    program = openxrt.load(identity_model(TensorProto.INT4, [3]), engine="native")
    np.testing.assert_array_equal(program(values).astype(np.int32), [-8, -1, 7])
    np.testing.assert_array_equal(program(values[::-1]).astype(np.int32), [7, -1, -8])


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1, 1)])
def test_scalars_and_empty_tensors(shape: tuple[int, ...]) -> None:
    program = openxrt.load(identity_model(TensorProto.FLOAT, shape), engine="native")
    result = program(np.ones(shape, np.float32))
    assert result.shape == shape
    np.testing.assert_array_equal(result, np.ones(shape))


def test_strings() -> None:
    program = openxrt.load(identity_model(TensorProto.STRING, [2, 2]), engine="native")
    values = np.array([["plain", "日本語"], ["", "x" * 100]], dtype=object)
    for given in (values, values.astype(str), values.tolist()):
        result = program(given)
        assert result.dtype == object
        assert result.tolist() == values.tolist()


def test_bytes_that_are_not_utf8_survive() -> None:
    program = openxrt.load(identity_model(TensorProto.STRING, [1]), engine="native")
    result = program(np.array([b"\xff\x00a"], dtype=object))
    assert result[0].encode("utf-8", "surrogateescape") == b"\xff\x00a"
    assert program(result)[0] == result[0]


def test_strings_must_be_strings() -> None:
    program = openxrt.load(identity_model(TensorProto.STRING, [1]), engine="native")
    with pytest.raises(openxrt.InvalidArgument, match="element 0 is a int"):
        program(np.array([3], dtype=object))


def test_any_layout_is_read_right(relu: openxrt.Program) -> None:
    base = np.arange(-12, 12, dtype=np.float32).reshape(4, 6)
    views = [
        base,
        base.T,
        base[::2, ::-1],
        base[:, 1:3],
        np.asfortranarray(base),
        np.broadcast_to(base[0], (3, 6)),
        base.astype(">f4"),
        base[:0],
    ]
    for view in views:
        np.testing.assert_array_equal(relu(view), np.maximum(view, 0).astype(np.float32))


def test_read_only_arrays_are_inputs(relu: openxrt.Program) -> None:
    x = np.full((2, 2), -1, np.float32)
    x.flags.writeable = False
    np.testing.assert_array_equal(relu(x), 0)


def test_buffers_numbers_and_lists(relu: openxrt.Program) -> None:
    expected = np.array([[0, 2]], np.float32)
    np.testing.assert_array_equal(relu([[-1, 2.0]]), expected)
    np.testing.assert_array_equal(relu([[-1, 2]]), expected)  # an int may become a float
    flat = array.array("f", [-1, 2])
    np.testing.assert_array_equal(relu(memoryview(flat).cast("B").cast("f", [1, 2])), expected)
    scalar = openxrt.load(identity_model(TensorProto.INT64, []), engine="native")
    assert scalar(7) == 7
    assert scalar(np.int64(7)) == 7
    with pytest.raises(openxrt.InvalidArgument, match="float"):
        scalar(7.5)  # a float does not become an int


def test_dlpack_from_torch(relu: openxrt.Program) -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([[-1.0, 2.0], [3.0, -4.0]])
    np.testing.assert_array_equal(relu(x), [[0, 2], [3, 0]])
    np.testing.assert_array_equal(relu(x.t()), [[0, 3], [2, 0]])
    back = torch.from_dlpack(relu(x))
    assert torch.equal(back, torch.relu(x))
    bf16 = openxrt.load(identity_model(TensorProto.BFLOAT16, [2]), engine="native")
    result = bf16(torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
    np.testing.assert_array_equal(result.astype(np.float32), [1.5, -2.0])
    boolean = openxrt.load(identity_model(TensorProto.BOOL, [2]), engine="native")
    np.testing.assert_array_equal(boolean(torch.tensor([True, False])), [True, False])
    with pytest.raises(openxrt.InvalidArgument, match=r"does not lend its memory.*grad"):
        relu(x.clone().requires_grad_())
    out = torch.empty(2, 2)
    assert relu(x, out=out) is out
    assert torch.equal(out, torch.relu(x))


def test_results_live_on_without_their_program() -> None:
    program = openxrt.load(identity_model(TensorProto.FLOAT, [1000]), engine="native")
    result = program(np.arange(1000, dtype=np.float32))
    del program
    gc.collect()
    np.testing.assert_array_equal(result, np.arange(1000))
    assert result.flags.writeable
    assert not result.flags.owndata  # the tensor's own memory, not a copy


def test_inputs_are_not_kept_after_the_call(relu: openxrt.Program) -> None:
    class Array(np.ndarray):
        """One that can be referred to weakly."""

    x = np.ones((2, 2), np.float32).view(Array)
    alive = weakref.ref(x)
    relu(x)
    del x
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 2)), "float64"),
        (np.zeros((2, 2), "datetime64[s]"), "datetime64"),
        (np.zeros(4, np.float32), "rank|dimension|shape"),
        (np.zeros((2, 2), [("a", "f4")]), "NumPy dtype"),
        (np.array([[object()]]), "Python objects"),
        (None, "None"),
        (object(), "object was given"),
        ({"a": 1}, "dict was given"),
        ([[1, 2], [3]], "list"),
    ],
)
def test_what_is_no_tensor_is_refused(relu: openxrt.Program, value: object, message: str) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=message) as caught:
        relu(value)
    assert "x" in str(caught.value)  # the input is named


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (TensorProto.INT8, [300]),
        (TensorProto.UINT8, [256]),
        (TensorProto.INT32, [2**40, 1]),
        (TensorProto.INT64, [2**63]),
        (TensorProto.UINT64, [-1]),
    ],
)
def test_numbers_that_a_dtype_does_not_hold(dtype: int, values: list[int]) -> None:
    program = openxrt.load(identity_model(dtype, ["n"]))
    with pytest.raises(openxrt.InvalidArgument, match=r"x.*(beyond|does not become)"):
        program(values)
    np.testing.assert_array_equal(program([127, 0, 1]), [127, 0, 1])


TRUTHS = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime", "xla"])
@pytest.mark.parametrize("op", ["Xor", "Equal", "And"])
def test_bools_of_other_bytes(engine: str, op: str) -> None:
    """NumPy takes each byte but 0 for true; libraries compute with the bytes."""
    model = make_model(
        [
            helper.make_node(op, ["x", "w"], ["y"]),
            helper.make_node("Cast", ["x"], ["n"], to=TensorProto.INT32),
        ],
        [tensor("x", TensorProto.BOOL, [4]), tensor("w", TensorProto.BOOL, [4])],
        [tensor("y", TensorProto.BOOL, [4]), tensor("n", TensorProto.INT32, [4])],
    )
    program = load_on(model, engine)
    found = program.run({"x": TRUTHS, "w": np.ones(4, np.bool_)})
    np.testing.assert_array_equal(found["n"], [0, 1, 1, 1])
    expected = [True, False, False, False] if op == "Xor" else [False, True, True, True]
    np.testing.assert_array_equal(found["y"].view(np.uint8), expected)


def test_masks_of_other_bytes() -> None:
    """ONNX Runtime would make room for the sum of the bytes."""
    model = make_model(
        [helper.make_node("Compress", ["x", "m"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["n"]), tensor("m", TensorProto.BOOL, ["n"])],
        [tensor("y", TensorProto.FLOAT, None)],
    )
    x = np.arange(4, dtype=np.float32)
    found = load_on(model, "onnxruntime").run({"x": x, "m": TRUTHS})["y"]
    np.testing.assert_array_equal(found, x[1:])


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime", "xla"])
def test_memory_of_outputs_that_is_given_twice(engine: str) -> None:
    model = make_model(
        [
            helper.make_node("Transpose", ["x"], ["o"], perm=[1, 0]),
            helper.make_node("Neg", ["x"], ["p"]),
            helper.make_node("Add", ["p", "x"], ["q"]),
        ],
        [tensor("x", TensorProto.FLOAT, [3, 3])],
        [tensor(name, TensorProto.FLOAT, [3, 3]) for name in "opq"],
    )
    program = load_on(model, engine)
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    expected = {"o": x.T, "p": -x, "q": np.zeros_like(x)}
    for name in "op":
        memory = np.concatenate([x.ravel(), np.zeros(3, np.float32)])
        for first in (0, 3):  # the input's own, and part of it
            memory[:9] = x.ravel()
            out = memory[first : first + 9].reshape(3, 3)
            found = program.run({"x": memory[:9].reshape(3, 3)}, out={name: out})
            assert found[name] is out
            for key, value in expected.items():
                np.testing.assert_array_equal(found[key], value)
    memory = np.zeros(12, np.float32)
    outputs = {"o": memory[:9].reshape(3, 3), "p": memory[3:].reshape(3, 3)}
    with pytest.raises(openxrt.InvalidArgument, match=r"outputs 'o' and 'p' overlaps"):
        program.run({"x": x}, out=outputs)
