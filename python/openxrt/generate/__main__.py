# SPDX-License-Identifier: Apache-2.0
"""`xrt generate`: text from a language model.

    xrt generate model.gguf --prompt "The capital of France is" --max-tokens 32 --greedy
    xrt generate model.gguf --chat --prompt "Write a haiku about rain." --json answer.json

MODEL is a GGUF file, or a folder that ONNX Runtime GenAI's builder or optimum wrote. The text is
written as it comes. Needs the package's extra: pip install 'openxrt[generate]'.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .. import Error, InvalidArgument
from .._core import write_output_file
from .model import DEFAULT_CONTEXT, load

_FAILED, _USAGE, _ENGINE, _INTERRUPTED = 1, 2, 3, 130


def parser() -> argparse.ArgumentParser:
    """The command line."""
    words = argparse.ArgumentParser(
        prog="xrt generate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument(
        "model", type=Path, help="a GGUF file, or a folder of ONNX or safetensors files"
    )
    words.add_argument("--prompt", required=True, help="the text to continue")
    words.add_argument("--chat", action="store_true", help="the prompt is a message of a user")
    words.add_argument("--system", help="with --chat: a message of the system before it")
    words.add_argument(
        "--max-tokens", type=int, default=128, metavar="N", help="(default: %(default)s)"
    )
    words.add_argument("--greedy", action="store_true", help="always the likeliest token")
    words.add_argument("--temperature", type=float, default=0.8, help="(default: %(default)s)")
    words.add_argument("--top-k", type=int, default=40, help="0: all (default: %(default)s)")
    words.add_argument("--top-p", type=float, default=0.95, help="(default: %(default)s)")
    words.add_argument(
        "--repetition-penalty", type=float, default=1.0, help="(default: %(default)s)"
    )
    words.add_argument("--seed", type=int, help="of the drawing; without it each run differs")
    words.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="ends the text; may be repeated"
    )
    words.add_argument(
        "-e", "--engine", default="native", help="engines, with commas (default: %(default)s)"
    )
    words.add_argument("--threads", type=int, default=0, help="0: the process's budget")
    words.add_argument(
        "--activations",
        choices=("float", "int8"),
        default="float",
        help="what weights in blocks are multiplied by (default: %(default)s)",
    )
    words.add_argument(
        "--max-context",
        type=int,
        default=DEFAULT_CONTEXT,
        metavar="N",
        help="positions of prompt and text together, where the model declares more "
        "(default: %(default)s)",
    )
    words.add_argument(
        "--json",
        metavar="FILE",
        help="write text, tokens, tokens_per_s and first_token_s to a file; -: to the output, "
        "instead of the text",
    )
    return words


def main(arguments: list[str] | None = None) -> int:
    """The exit code, as docs/reference/command.md lists them."""
    words = parser().parse_args(arguments)
    try:
        return _generate(words)
    except InvalidArgument as error:
        print(f"xrt generate: {error}", file=sys.stderr)
        return _USAGE
    except Error as error:
        print(f"xrt generate: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED


def _generate(words: argparse.Namespace) -> int:
    model = load(
        words.model,
        engine=words.engine.split(","),
        activations=words.activations,
        max_context=words.max_context,
        num_threads=words.threads,
    )
    prompt = words.prompt
    if words.chat:
        messages = [{"role": "user", "content": prompt}]
        if words.system is not None:
            messages.insert(0, {"role": "system", "content": words.system})
        prompt = model.chat_prompt(messages)
    pieces = model.stream(
        prompt,
        max_tokens=words.max_tokens,
        stop=words.stop,
        greedy=words.greedy,
        temperature=words.temperature,
        top_k=words.top_k,
        top_p=words.top_p,
        repetition_penalty=words.repetition_penalty,
        seed=words.seed,
    )
    shows = words.json != "-"
    for piece in pieces:
        if shows:
            print(piece, end="", flush=True)
    if shows:
        print()
    if words.json is None:
        return 0
    found = pieces.result()
    report = {
        "text": found.text,
        "tokens": found.tokens,
        "prompt_tokens": found.prompt_tokens,
        "reason": found.reason,
        "tokens_per_s": found.tokens_per_s,
        "first_token_s": found.first_token_s,
    }
    if words.json == "-":
        print(json.dumps(report))
    else:
        try:
            write_output_file(words.json, (json.dumps(report) + "\n").encode())
        except Error as error:
            print(f"xrt generate: {error}", file=sys.stderr)
            return _FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
