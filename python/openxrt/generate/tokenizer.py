# SPDX-License-Identifier: Apache-2.0
"""Text to tokens and back, by the package `tokenizers`; chat templates, by `jinja2`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core import InvalidArgument, InvalidModel, NotFound, Unsupported
from .json_file import read_object

if TYPE_CHECKING:
    import tokenizers
    from transformers import GenerationConfig, PreTrainedTokenizerBase

    from .gguf import GgufFile

Messages = Sequence[Mapping[str, str]]

# How a byte-level tokenizer cuts a text before it merges: by the name that GGUF files give it.
_DIGITS_FIRST = {"smollm", "starcoder", "refact", "command-r", "codeshell"}
_PATTERNS = {
    "llama-bpe": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
_PLAIN = {"default", "gpt-2"}

_CONTROL = 3
_USER_DEFINED = 4
# Words that end an answer, whatever a file says.
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "</s>", "<end_of_turn>")


def _package() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise NotFound(
            "openxrt.generate reads texts with the package tokenizers: "
            "pip install 'openxrt[generate]'"
        ) from error
    return tokenizers


@dataclass
class TextTokenizer:
    """The tokenizer of a model, with what it says about the ends of texts and about chats."""

    tokenizer: tokenizers.Tokenizer
    begin: int | None = None  # put before every prompt
    ends: frozenset[int] = frozenset()
    template: str | None = None
    words: dict[str, str] = field(default_factory=dict)  # for the template: bos_token, eos_token
    adds_special: bool = False  # the tokenizer itself puts tokens around prompts

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt; with those that begin and end texts, where the model has such. A
        prompt that already begins so, as those of chat templates do, stays as it is."""
        if not isinstance(text, str):
            raise InvalidArgument(f"a prompt is a text, not {type(text).__name__}")
        word = self.words.get("bos_token", "")
        special = self.adds_special and not (word and text.startswith(word))
        ids = list(self.tokenizer.encode(text, add_special_tokens=special).ids)
        if self.begin is not None and ids[:1] != [self.begin]:
            ids.insert(0, self.begin)
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without those that only control."""
        return self.tokenizer.decode(list(tokens), skip_special_tokens=True)

    def chat(self, messages: Messages) -> str:
        """The prompt that a conversation is for this model."""
        if self.template is None:
            raise Unsupported("the model has no chat template: give it a prompt")
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def fail(message: str) -> None:
            raise TemplateError(message)

        # A template comes with the model: it sees nothing but the conversation.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = fail
        try:
            return environment.from_string(self.template).render(
                messages=[dict(m) for m in messages], add_generation_prompt=True, **self.words
            )
        except TemplateError as error:
            raise InvalidArgument(f"the chat template: {error}") from error


class TextStream:
    """Tokens one by one to pieces of text: characters of several tokens come whole."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self._begin = 0  # tokens before it do not change the text any more
        self._shown = 0

    def add(self, token: int) -> str:
        """What the token adds to the text."""
        self._tokens.append(token)
        return self._take(is_last=False)

    def end(self) -> str:
        """What was held back."""
        return self._take(is_last=True)

    def _take(self, *, is_last: bool) -> str:
        before = self._tokenizer.decode(self._tokens[self._begin : self._shown])
        now = self._tokenizer.decode(self._tokens[self._begin :])
        if not is_last and now.endswith("\ufffd"):
            return ""
        self._begin, self._shown = self._shown, len(self._tokens)
        return now[len(before) :]


def _merges_of_scores(words: Sequence[str], scores: Sequence[float]) -> list[tuple[str, str]]:
    """The merges of a tokenizer that only has scores of its words: the best word first."""
    known = {word: i for i, word in enumerate(words)}
    found = []
    for word, score in zip(words, scores, strict=True):
        for cut in range(1, len(word)):
            left, right = word[:cut], word[cut:]
            if left in known and right in known:
                found.append((-score, known[left], known[right], left, right))
    found.sort()
    return [(left, right) for *_, left, right in found]


def of_gguf(file: GgufFile) -> TextTokenizer:
    """The tokenizer in a file's metadata."""
    package = _package()
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    kind = file.value("tokenizer.ggml.model", str)
    words = file.value("tokenizer.ggml.tokens", list)
    if not words or not all(isinstance(word, str) for word in words):
        raise InvalidModel(f"{file.path}: 'tokenizer.ggml.tokens' are no texts")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is not None and embedding.shape[0] < len(words):
        raise InvalidModel(
            f"{file.path}: {len(words)} tokens, but embeddings for {embedding.shape[0]}"
        )
    vocabulary = {word: i for i, word in enumerate(words)}
    types = file.metadata.get("tokenizer.ggml.token_type")
    types = [1] * len(words) if types is None else [int(t) for t in types]
    if len(types) != len(words):
        raise InvalidModel(f"{file.path}: {len(words)} tokens have {len(types)} types")
    if kind == "gpt2":
        lines = file.value("tokenizer.ggml.merges", list)
        merges = [tuple(str(line).split(" ")) for line in lines]
        if any(len(m) != 2 for m in merges):
            raise InvalidModel(f"{file.path}: a merge of 'tokenizer.ggml.merges' has no two parts")
        pre = str(file.metadata.get("tokenizer.ggml.pre", "default"))
        made = _bpe(file, package, vocabulary, merges)
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre not in _PATTERNS)
        if pre in _DIGITS_FIRST:
            steps = [pre_tokenizers.Digits(individual_digits=True), level]
        elif pre in _PATTERNS:
            pattern = package.Regex(_PATTERNS[pre])
            steps = [pre_tokenizers.Split(pattern, "isolated"), level]
        elif pre in _PLAIN:
            steps = [level]
        else:
            known = sorted({*_DIGITS_FIRST, *_PATTERNS, *_PLAIN})
            raise Unsupported(f"{file.path}: the tokenizer '{pre}'; there are {', '.join(known)}")
        made.pre_tokenizer = pre_tokenizers.Sequence(steps)
        made.decoder = decoders.ByteLevel()
    elif kind == "llama":
        scores = file.metadata.get("tokenizer.ggml.scores")
        if scores is None or len(scores) != len(words):
            raise InvalidModel(f"{file.path}: the scores of the tokens are missing")
        merges = _merges_of_scores(words, [float(s) for s in scores])
        made = _bpe(file, package, vocabulary, merges, byte_fallback=True, fuse_unk=True)
        replace = normalizers.Replace(" ", "▁")
        if file.metadata.get("tokenizer.ggml.add_space_prefix", True):
            made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace])
        else:
            made.normalizer = replace
        parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        if file.metadata.get("tokenizer.ggml.add_space_prefix", True):
            parts.append(decoders.Strip(" ", 1, 0))
        made.decoder = decoders.Sequence(parts)
    else:
        raise Unsupported(f"{file.path}: a tokenizer of the kind '{kind}'; there are gpt2, llama")
    del models
    made.add_special_tokens(
        [
            package.AddedToken(word, normalized=False, special=True)
            for word, t in zip(words, types, strict=True)
            if t == _CONTROL
        ]
    )
    made.add_tokens(
        [
            package.AddedToken(word, normalized=False)
            for word, t in zip(words, types, strict=True)
            if t == _USER_DEFINED
        ]
    )

    def special(name: str) -> int | None:
        found = file.metadata.get(f"tokenizer.ggml.{name}_token_id")
        if found is None:
            return None
        if not isinstance(found, int) or not 0 <= found < len(words):
            raise InvalidModel(f"{file.path}: 'tokenizer.ggml.{name}_token_id' is {found}")
        return found

    begin, end = special("bos"), special("eos")
    ends = {vocabulary[w] for w in _ENDS if w in vocabulary and types[vocabulary[w]] == _CONTROL}
    ends |= {i for i in (end, special("eot")) if i is not None}
    template = file.metadata.get("tokenizer.chat_template")
    return TextTokenizer(
        made,
        begin if file.metadata.get("tokenizer.ggml.add_bos_token", kind == "llama") else None,
        frozenset(ends),
        template if isinstance(template, str) else None,
        {
            "bos_token": words[begin] if begin is not None else "",
            "eos_token": words[end] if end is not None else "",
        },
    )


def _bpe(
    file: GgufFile,
    package: Any,
    vocabulary: dict[str, int],
    merges: list[tuple[str, ...]],
    **options: Any,
) -> tokenizers.Tokenizer:
    try:
        return package.Tokenizer(package.models.BPE(vocabulary, merges, **options))
    except Exception as error:  # the package has no class of its own for its errors
        raise InvalidModel(f"{file.path}: the tokenizer: {error}") from error


def of_folder(folder: Path) -> TextTokenizer:
    """The tokenizer.json of a folder, and what tokenizer_config.json and its like say of it."""
    package = _package()
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise NotFound(f"{path}: no such file")
    try:
        made = package.Tokenizer.from_file(str(path))
    except Exception as error:  # the package has no class of its own for its errors
        raise InvalidModel(f"{path}: {error}") from error

    def read(name: str) -> dict[str, Any]:
        file = folder / name
        if not file.is_file():
            return {}
        return read_object(file)

    config = read("tokenizer_config.json")

    def word(key: str) -> str:
        found = config.get(key)
        if isinstance(found, dict):
            found = found.get("content")
        return found if isinstance(found, str) else ""

    template = config.get("chat_template")
    file = folder / "chat_template.jinja"
    if template is None and file.is_file():
        template = file.read_text(encoding="utf-8")
    ends = {made.token_to_id(w) for w in (*_ENDS, word("eos_token"))} - {None}
    for name in ("generation_config.json", "config.json"):
        found = read(name).get("eos_token_id")
        for number in found if isinstance(found, list) else [found]:
            if isinstance(number, int):
                ends.add(number)
    return TextTokenizer(
        made,
        None,
        frozenset(ends),
        template if isinstance(template, str) else None,
        {"bos_token": word("bos_token"), "eos_token": word("eos_token")},
        adds_special=True,
    )


def of_transformers(
    tokenizer: PreTrainedTokenizerBase, generation: GenerationConfig
) -> TextTokenizer:
    """A tokenizer of the package transformers; the configuration says which tokens end a text.

    Raises:
        Unsupported: it is not one of the package `tokenizers`.
    """
    made = getattr(tokenizer, "backend_tokenizer", None)
    if made is None:
        raise Unsupported(
            f"{type(tokenizer).__name__} does not read by the package tokenizers; "
            "AutoTokenizer.from_pretrained(..., use_fast=True) gives one that does"
        )
    ends = {made.token_to_id(w) for w in (*_ENDS, tokenizer.eos_token or "")} - {None}
    found = generation.eos_token_id
    ends.update(found if isinstance(found, list) else [] if found is None else [found])
    template = tokenizer.chat_template
    return TextTokenizer(
        made,
        None,
        frozenset(ends),
        template if isinstance(template, str) else None,
        {"bos_token": tokenizer.bos_token or "", "eos_token": tokenizer.eos_token or ""},
        adds_special=True,
    )
