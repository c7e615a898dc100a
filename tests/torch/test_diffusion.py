# SPDX-License-Identifier: Apache-2.0
"""The parts of a diffusion pipeline, by the package diffusers, and a pipeline that has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import openxrt.torch as xt
import pytest
import torch
from small_models import usable

ENGINES = ["native", "openvino", "xla", "onnxruntime"]
SIZE = 16  # of a latent picture


@pytest.fixture(scope="module")
def diffusers() -> Any:
    return pytest.importorskip("diffusers")


@pytest.fixture(scope="module")
def unet(diffusers: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    return diffusers.UNet2DConditionModel(
        sample_size=SIZE,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=24,
        attention_head_dim=4,
    ).eval()


@pytest.fixture(scope="module")
def vae(diffusers: Any) -> Any:
    torch.manual_seed(1)
    return diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 16),
        latent_channels=4,
        norm_num_groups=4,
        sample_size=2 * SIZE,
    ).eval()


def compiled(module: torch.nn.Module, engine: str) -> xt.XRTModule:
    if not usable(engine):
        pytest.skip(f"engine {engine} is not usable here")
    return xt.XRTModule(module, engine=[engine])


def judge(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
@torch.no_grad()
def test_unet(unet: torch.nn.Module, engine: str) -> None:
    module = compiled(unet, engine)
    sizes = [(2, SIZE, 7), (1, 2 * SIZE, 9)]
    for batch, size, words in sizes if engine == "native" else sizes[:1]:
        x = torch.randn(batch, 4, size, size)
        text = torch.randn(batch, words, 24)
        for step in (999, 1):
            judge(
                module(x, torch.tensor(step), encoder_hidden_states=text).sample,
                unet(x, torch.tensor(step), encoder_hidden_states=text).sample,
            )
    assert module.explain().nodes_per_engine.keys() == {engine}


@pytest.mark.parametrize("engine", ENGINES)
@torch.no_grad()
def test_autoencoder(vae: Any, engine: str) -> None:
    picture = torch.randn(1, 3, 2 * SIZE, 2 * SIZE)
    judge(compiled(vae.encoder, engine)(picture), vae.encoder(picture))
    latent = torch.randn(1, 4, SIZE, SIZE)
    judge(compiled(vae.decoder, engine)(latent), vae.decoder(latent))


@pytest.mark.parametrize("engine", ["native", "openvino"])
def test_pipeline(diffusers: Any, unet: Any, vae: Any, engine: str) -> None:
    """Its own loop and scheduler, with two of its networks exchanged."""
    text = torch.randn(2, 1, 7, 24)

    def pictures(pipeline: Any) -> np.ndarray:
        pipeline.set_progress_bar_config(disable=True)
        return pipeline(
            prompt_embeds=text[0],
            negative_prompt_embeds=text[1],
            num_inference_steps=4,
            generator=torch.Generator().manual_seed(3),
            output_type="np",
        ).images

    pipeline = diffusers.StableDiffusionPipeline(
        vae=vae,
        unet=unet,
        scheduler=diffusers.DDIMScheduler(clip_sample=False),
        text_encoder=None,
        tokenizer=None,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    wanted = pictures(pipeline)
    decoder = vae.decoder
    try:
        pipeline.unet = compiled(unet, engine)
        vae.decoder = compiled(decoder, engine)
        np.testing.assert_allclose(pictures(pipeline), wanted, atol=1e-4)
        assert len(pipeline.unet._programs) == 1
    finally:
        vae.decoder = decoder
