# SPDX-License-Identifier: Apache-2.0
"""Text from language models.

import openxrt.generate

model = openxrt.generate.load("model.gguf")
print(model.generate("The capital of France is", max_tokens=16, greedy=True).text)
"""

from .model import Generation, LanguageModel, TextPieces, load
from .sampling import Sampling
from .tokenizer import TextTokenizer

__all__ = ["Generation", "LanguageModel", "Sampling", "TextPieces", "TextTokenizer", "load"]
