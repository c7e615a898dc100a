# SPDX-License-Identifier: Apache-2.0
"""Folders of models and their settings, right and wrong; and what Triton's repository holds."""

from __future__ import annotations

import json
from pathlib import Path

import openxrt
import pytest
from openxrt.serve import ModelSettings, find_models
from openxrt.serve.triton_repository import config_text, describe, model_file, write_model
from serving import linear_model


def test_folders_and_files_are_models(models: Path) -> None:
    batched, plain = find_models(models)
    assert (batched.name, batched.latest, batched.settings.max_batch_size) == ("batched", 1, 8)
    assert (plain.name, plain.versions) == ("plain", {1: models / "plain.onnx"})
    assert plain.settings == ModelSettings()


def test_versions(models: Path) -> None:
    linear_model(models / "batched" / "12" / "model.onnx")
    linear_model(models / "batched" / "draft" / "model.onnx")  # no number
    (models / "batched" / "3").mkdir()  # no model
    (batched, _) = find_models(models)
    assert sorted(batched.versions) == [1, 12]
    assert batched.served == [12]
    (models / "batched" / "xrt.json").write_text('{"versions": "all"}')
    assert find_models(models)[0].served == [1, 12]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ('{"batch": 1}', "unknown key 'batch'"),
        ('{"max_batch_size": -1}', "max_batch_size is -1"),
        ('{"max_batch_size": true}', "max_batch_size is True"),
        ('{"instances": 0}', "at least 1"),
        ('{"priority_levels": -1}', "priority_levels is -1"),
        (
            '{"priority_levels": 2, "default_priority_level": 3}',
            "default_priority_level is 3, of 2",
        ),
        ('{"versions": "first"}', '"latest" or "all"'),
        ('{"options": 3}', "options is no object"),
        ('{"warm_up": {"x": [-1]}}', "warm_up of 'x'"),
    ],
)
def test_settings_that_do_not_fit_name_the_file(models: Path, text: str, message: str) -> None:
    (models / "batched" / "xrt.json").write_text(text)
    with pytest.raises(openxrt.InvalidArgument, match=r"xrt\.json") as caught:
        find_models(models)
    assert message in str(caught.value)


def test_folders_that_are_none(tmp_path: Path, models: Path) -> None:
    with pytest.raises(openxrt.NotFound, match="there is no folder"):
        find_models(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(openxrt.NotFound, match="has no model"):
        find_models(tmp_path / "empty")
    linear_model(models / "plain" / "1" / "model.onnx")
    with pytest.raises(openxrt.InvalidArgument, match="two models 'plain'"):
        find_models(models)


def test_names_cannot_leave_the_folder(tmp_path: Path, models: Path) -> None:
    linear_model(tmp_path / "secret.onnx")
    (models / "link.onnx").symlink_to(tmp_path / "secret.onnx")
    with pytest.raises(openxrt.InvalidArgument, match="leads out of"):
        find_models(models)
    (models / "link.onnx").unlink()
    linear_model(models / "a b.onnx")
    with pytest.raises(openxrt.InvalidArgument, match="letters, digits"):
        find_models(models)


def test_a_model_is_described_by_a_process_of_its_own(models: Path) -> None:
    assert describe(models / "plain.onnx", ModelSettings()) == {
        "input": {"x": ["FP32", [-1, 4], True]},
        "output": {"y": ["FP32", [-1, 3], True]},
        "engines": ["native"],
    }
    (models / "plain.onnx").write_bytes(b"junk")
    with pytest.raises(openxrt.InvalidModel, match=r"plain\.onnx"):
        describe(models / "plain.onnx", ModelSettings())


def test_batches_need_an_open_dimension(tmp_path: Path) -> None:
    graph = openxrt.Graph("fixed")
    x = graph.add_input("x", "float32", [2, 4])
    (y,) = graph.add_node("Relu", [x], ["y"])
    graph.add_output(y)
    graph.finish()
    (tmp_path / "fixed.onnx").write_bytes(graph.to_onnx())
    with pytest.raises(openxrt.InvalidModel, match="open first dimension"):
        describe(tmp_path / "fixed.onnx", ModelSettings(max_batch_size=4))
    with pytest.raises(openxrt.InvalidModel, match="warm_up names 'z'"):
        describe(tmp_path / "fixed.onnx", ModelSettings(warm_up={"z": [1]}))
    with pytest.raises(openxrt.InvalidModel, match="banana"):
        describe(tmp_path / "fixed.onnx", ModelSettings(options={"engine": "banana"}))


def test_a_repository_for_elsewhere_holds_the_models(models: Path, tmp_path: Path) -> None:
    (batched, plain) = find_models(models)
    for model in (batched, plain):
        folder = write_model(tmp_path / "triton", model, copy=True)
        assert model_file(folder / "1") == folder / "1" / "model.onnx"
        assert (folder / "1" / "model.onnx").read_bytes() == model.versions[1].read_bytes()
        assert "sys.path" not in (folder / "1" / "model.py").read_text()
    text = (tmp_path / "triton" / "batched" / "config.pbtxt").read_text()
    assert "dims: [4]" in text
    assert "max_batch_size: 8" in text
    text = (tmp_path / "triton" / "plain" / "config.pbtxt").read_text()
    assert "dims: [-1, 4]" in text
    # A model that broke leaves what is there.
    batched.versions[1].write_bytes(b"junk")
    with pytest.raises(openxrt.InvalidModel):
        write_model(tmp_path / "triton", batched, copy=True)
    assert (tmp_path / "triton" / "batched" / "1" / "model.py").exists()


def test_names_are_quoted(models: Path) -> None:
    (_, plain) = find_models(models)
    described = {
        "input": {'x"\n': ["BYTES", [-1], False]},
        "output": {"y": ["FP32", [], True]},
        "engines": ["native"],
    }
    text = config_text(plain, described)
    assert json.dumps('x"\n') in text
    assert "TYPE_STRING" in text
    assert "optional: true" in text
