#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command in an environment apart from .venv, which is made where it is missing:
#
#   tools/extra_env.sh NAME COMMAND [ARGUMENTS]
#   tools/extra_env.sh ray python -c 'import ray'
#
#   serve    the servers and clients of `xrt serve` (450 MB), of which KServe wants an older NumPy
#   ray      Ray's libraries (500 MB)
#   oneflow  OneFlow 0.9.0 on Python 3.10, for which it has its newest wheel (2.6 GB, most of it NVIDIA's
#            libraries, which the wheel links also on a machine without a GPU)
#
# tools/requirements-NAME.txt lists the packages. The environment lies in $XRT_DEPS_DIR/NAME (default
# ~/.cache/openxrt/NAME). Its Python is that of .venv, which openxrt's extension module is built for; for oneflow it is
# XRT_PYTHON310, python3.10 on the PATH, one of pyenv's, or what `uv python install` brings.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${1:-}
case $name in
  serve | ray | oneflow) shift ;;
  *)
    echo "usage: tools/extra_env.sh serve|ray|oneflow COMMAND [ARGUMENTS]" >&2
    exit 2
    ;;
esac
environment=${XRT_DEPS_DIR:-$HOME/.cache/openxrt}/$name
requirements=$root/tools/requirements-$name.txt

is_310() { "$1" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 10))' 2>/dev/null; }

find_310() {
  local candidate
  for candidate in "${XRT_PYTHON310:-}" python3.10 "$HOME"/.pyenv/versions/3.10.*/bin/python3.10; do
    [[ -n $candidate ]] && is_310 "$candidate" && command -v "$candidate" && return
  done
  if command -v uv >/dev/null && uv python install --quiet 3.10; then
    uv python find 3.10 && return
  fi
  echo "extra_env: Python 3.10 was not found: OneFlow 0.9.0 has no wheel for a newer one. Name one in" \
    "XRT_PYTHON310, or install uv or pyenv" >&2
  return 1
}

stamp=$environment/requirements.stamp
sum=$(sha256sum <"$requirements")
if [[ ! -e $stamp || $(<"$stamp") != "$sum" ]]; then
  python=$root/.venv/bin/python
  [[ $name != oneflow ]] || python=$(find_310)
  echo "==> installing ${requirements##*/} into $environment" >&2
  "$python" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
    -r "$requirements" >&2
  printf '%s' "$sum" >"$stamp"
fi
export PATH="$environment/bin:$PATH"
if [[ $name == oneflow ]]; then
  nvidia=$environment/lib/python3.10/site-packages/nvidia
  export LD_LIBRARY_PATH="$nvidia/cudnn/lib:$nvidia/cublas/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
exec "$@"
