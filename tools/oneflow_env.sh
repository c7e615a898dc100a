#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command in an environment with OneFlow 0.9.0 on Python 3.10, which is made where it is
# missing (2.6 GB, most of it NVIDIA's libraries, which OneFlow's wheel links also on a machine
# without a GPU):
#
#   tools/oneflow_env.sh python -c 'import oneflow; print(oneflow.__version__)'
#
# Python 3.10 is XRT_PYTHON310, python3.10 on the PATH, one of pyenv's, or what `uv python install`
# brings. The environment lies in $XRT_DEPS_DIR/oneflow (default ~/.cache/openxrt/oneflow).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
environment=${XRT_DEPS_DIR:-$HOME/.cache/openxrt}/oneflow

is_310() { "$1" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 10))' 2>/dev/null; }

find_python() {
  local candidate
  for candidate in "${XRT_PYTHON310:-}" python3.10 "$HOME"/.pyenv/versions/3.10.*/bin/python3.10; do
    [[ -n $candidate ]] && is_310 "$candidate" && command -v "$candidate" && return
  done
  if command -v uv >/dev/null && uv python install --quiet 3.10; then
    uv python find 3.10 && return
  fi
  echo "oneflow_env: Python 3.10 was not found: OneFlow 0.9.0 has no wheel for a newer one. Name" \
    "one in XRT_PYTHON310, or install uv or pyenv" >&2
  return 1
}

stamp=$environment/requirements.stamp
sum=$(sha256sum <"$root/tools/requirements-oneflow.txt")
if [[ ! -e $stamp || $(<"$stamp") != "$sum" ]]; then
  python=$(find_python)
  echo "==> installing OneFlow into $environment" >&2
  "$python" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
    -r "$root/tools/requirements-oneflow.txt" >&2
  printf '%s' "$sum" >"$stamp"
fi
packages=$environment/lib/python3.10/site-packages
export PATH="$environment/bin:$PATH"
export LD_LIBRARY_PATH="$packages/nvidia/cudnn/lib:$packages/nvidia/cublas/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$@"
