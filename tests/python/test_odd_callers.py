# SPDX-License-Identifier: Apache-2.0
"""Objects that are no arrays, and capsules that are filled wrongly, are errors that name them."""

import ctypes
from typing import Any

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import identity_model, make_model, tensor

ONES = np.ones((2, 3), np.float32)


@pytest.fixture(scope="module")
def program() -> openxrt.Program:
    return openxrt.load(identity_model(TensorProto.FLOAT, ["a", "b"]), engine="native")


@pytest.mark.parametrize("key", [1, None, b"y", "\ud800"])
def test_names_that_are_no_text(program: openxrt.Program, key: Any) -> None:
    with pytest.raises(openxrt.InvalidArgument, match="names of inputs"):
        program.run({key: ONES})
    with pytest.raises(openxrt.InvalidArgument, match="names of outputs"):
        program.run({"x": ONES}, out={key: ONES})


@pytest.mark.parametrize("producer", ["numpy", "dlpack"])
def test_a_view_of_one_number_is_not_copied_for_an_error(producer: str) -> None:
    """2⁴⁰ elements that are one in memory."""
    small = openxrt.load(identity_model(TensorProto.FLOAT, [3]), engine="native")
    view: Any = np.broadcast_to(np.float32(1), (2**40,))
    if producer == "dlpack":
        view = pytest.importorskip("torch").ones(1).expand(2**40)
    with pytest.raises(openxrt.InvalidArgument, match=r"'x'.*1099511627776"):
        small.run({"x": view})


@pytest.mark.parametrize("producer", ["numpy", "dlpack"])
def test_what_is_copied_is_in_the_bound_on_memory(producer: str) -> None:
    """An input that is not dense has to be copied, before the run."""
    program = openxrt.load(
        identity_model(TensorProto.FLOAT, ["n"]), engine="native", max_memory_bytes=1 << 20
    )
    for elements in (1000, 2**32):
        view: Any = np.broadcast_to(np.float32(1), (elements,))
        if producer == "dlpack":
            view = pytest.importorskip("torch").ones(1).expand(elements)
        if elements == 1000:
            np.testing.assert_array_equal(program(view), np.ones(elements, np.float32))
            continue
        with pytest.raises(openxrt.ResourceError, match=r"input 'x', to be copied.*17179869184"):
            program(view)
        with pytest.raises(openxrt.ResourceError, match="input 'x', to be copied"):
            program.run({"x": view})


@pytest.mark.parametrize(
    ("element", "said"),
    [
        (np.ones((1, 3), np.uint8), "in the sequence, a tensor of dtype uint8"),
        (np.ones((3,), np.float32), r"in the sequence, a tensor of shape \[3\]"),
        (np.ones((2, 3), np.float32), r"in the sequence, a tensor of shape \[2,3\]"),
    ],
)
def test_elements_of_sequences_have_the_declared_type(element: np.ndarray, said: str) -> None:
    model = make_model(
        [helper.make_node("SequenceAt", ["s", "i"], ["y"])],
        [
            helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1, "n"]),
            tensor("i", TensorProto.INT64, []),
        ],
        [tensor("y", TensorProto.FLOAT, None)],
    )
    program = openxrt.load(model, engine="native")
    right = np.ones((1, 5), np.float32)
    assert program.run({"s": [right, right[:, :2]], "i": np.array(1)})["y"].shape == (1, 2)
    with pytest.raises(openxrt.InvalidArgument, match=said):
        program.run({"s": [right, element], "i": np.array(0)})


def test_text_that_is_no_unicode() -> None:
    texts = openxrt.load(identity_model(TensorProto.STRING, [1]), engine="native")
    with pytest.raises(openxrt.InvalidArgument, match=r"'x'.*element 0 is no text"):
        texts.run({"x": np.array(["\ud800"], object)})


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.STRING])
def test_results_of_more_axes_than_arrays_have(dtype: int) -> None:
    """NumPy's have 64 at most."""
    model = make_model(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        [tensor("x", dtype, [1]), tensor("s", TensorProto.INT64, ["n"])],
        [tensor("y", dtype, None)],
    )
    program = openxrt.load(model, engine="native")
    x = np.array(["a"], object) if dtype == TensorProto.STRING else np.ones(1, np.float32)
    assert program.run({"x": x, "s": np.ones(9, np.int64)})["y"].shape == (1,) * 9
    with pytest.raises(openxrt.InvalidModel, match="rank 70 is beyond the limit of 64"):
        program.run({"x": x, "s": np.ones(70, np.int64)})


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [
        *[("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32)],
        *[("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8)],
        *[("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p)],
        *[("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)],
    ]


class Exporter:
    """Lends the array with fields of its capsule changed."""

    def __init__(self, array: np.ndarray, **changed: Any) -> None:
        self.shape = (ctypes.c_int64 * 2)(*array.shape)
        self.strides = (ctypes.c_int64 * 2)(*[s // array.itemsize for s in array.strides])
        self.managed = Managed(data=array.ctypes.data, device=1, ndim=2, code=2, bits=32, lanes=1)
        self.managed.shape = ctypes.addressof(self.shape)
        self.managed.strides = ctypes.addressof(self.strides)
        for name, value in changed.items():
            if name == "stride":
                self.strides[0] = value
            elif name == "size":
                self.shape[0] = value
            else:
                setattr(self.managed, name, value)

    def __dlpack__(self, **_: Any) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self) -> Any:
        return (1, 0)


def test_a_capsule_that_is_right(program: openxrt.Program) -> None:
    backwards = np.arange(6, dtype=np.float32).reshape(2, 3)[::-1]
    np.testing.assert_array_equal(program.run({"x": Exporter(backwards)})["y"], backwards)


@pytest.mark.parametrize(
    "changed",
    [
        {"ndim": -1},
        {"ndim": 2**31 - 1},
        {"shape": None},
        {"data": None},
        {"size": -1},
        {"size": 2**62},
        {"stride": 2**62},
        {"lanes": 4},
        {"bits": 0},
        {"device": 2},
        {"device": -1},
        {"code": 17, "bits": 4, "stride": 5},
    ],
    ids=str,
)
def test_capsules_that_are_wrong(program: openxrt.Program, changed: dict[str, Any]) -> None:
    with pytest.raises(openxrt.Error):
        program.run({"x": Exporter(ONES, **changed)})
    np.testing.assert_array_equal(program.run({"x": ONES})["y"], ONES)


def test_a_device_that_is_none(program: openxrt.Program) -> None:
    class Odd(Exporter):
        def __dlpack_device__(self) -> Any:
            return None

    with pytest.raises(openxrt.Error):
        program.run({"x": Odd(ONES)})
