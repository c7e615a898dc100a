#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command in an environment with Ray's libraries (500 MB), which is made where it is missing, of the
# Python of .venv, whose extension module openxrt is built for. It is apart from .venv: nothing else needs them.
#
#   tools/ray_env.sh python -c 'import ray'
#
# The environment lies in $XRT_DEPS_DIR/ray (default ~/.cache/openxrt/ray).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
environment=${XRT_DEPS_DIR:-$HOME/.cache/openxrt}/ray

stamp=$environment/requirements.stamp
sum=$(sha256sum <"$root/tools/requirements-ray.txt")
if [[ ! -e $stamp || $(<"$stamp") != "$sum" ]]; then
  echo "==> installing Ray into $environment" >&2
  "$root/.venv/bin/python" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
    -r "$root/tools/requirements-ray.txt" >&2
  printf '%s' "$sum" >"$stamp"
fi
export PATH="$environment/bin:$PATH"
exec "$@"
