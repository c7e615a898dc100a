#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command in an environment with the servers and clients of `xrt serve` (450 MB), which is made
# where it is missing, of the Python of .venv, whose extension module openxrt is built for. It is apart
# from .venv: KServe wants an older NumPy.
#
#   tools/serve_env.sh python -c 'import kserve'
#
# The environment lies in $XRT_DEPS_DIR/serve (default ~/.cache/openxrt/serve).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
environment=${XRT_DEPS_DIR:-$HOME/.cache/openxrt}/serve

stamp=$environment/requirements.stamp
sum=$(sha256sum <"$root/tools/requirements-serve.txt")
if [[ ! -e $stamp || $(<"$stamp") != "$sum" ]]; then
  echo "==> installing the servers into $environment" >&2
  "$root/.venv/bin/python" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
    -r "$root/tools/requirements-serve.txt" >&2
  printf '%s' "$sum" >"$stamp"
fi
export PATH="$environment/bin:$PATH"
exec "$@"
