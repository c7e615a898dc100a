#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the ONNX C++ library (schemas, checker, shape inference, version converter) from the source
# distribution on PyPI and installs it. Takes about a minute on two cores.
#
#   tools/build_onnx.sh PREFIX [address]
#
# With `address` under AddressSanitizer and with the checks of libstdc++ and protobuf: rules for
# shapes that read beyond their lists end the process. XRT_PYTHON names the Python to fetch with
# (default python3), CC and CXX the compilers.
set -euo pipefail

version=1.23.2
sha256=008cb0467b2bbee41448acc7da8b6f4e704624cb0d327a2d5adafc7ce19bc5b8

prefix=${1:?usage: tools/build_onnx.sh PREFIX [address]}
# As libxrt itself.
flags="-O2 -DNDEBUG"
if [[ ${2:-} == address ]]; then
  flags="-O1 -g1 -fsanitize=address -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS"
fi
python=${XRT_PYTHON:-python3}
if [[ -e $prefix/lib/libonnx.a && -e $prefix/lib/libonnx_proto.a ]]; then
  echo "The ONNX C++ library $version is in $prefix already."
  exit 0
fi

mkdir -p "$(dirname "$prefix")"
# One build at a time; who waited finds the work done.
exec 9>"$prefix.lock"
flock 9
if [[ -e $prefix/lib/libonnx.a && -e $prefix/lib/libonnx_proto.a ]]; then
  exit 0
fi
work=$(mktemp -d "$prefix.build.XXXXXX")
trap 'rm -rf "$work"' EXIT

# pip prepares a source distribution's metadata with its own build backend. Without build isolation
# that backend is the one installed beside pip; with isolation it would compile protobuf and CMake.
if ! "$python" -c 'import pip, scikit_build_core' 2>/dev/null; then
  "$python" -m venv "$work/venv"
  python=$work/venv/bin/python
  "$python" -m pip install --quiet --disable-pip-version-check scikit-build-core cmake ninja
fi
PATH="$(cd "$(dirname "$(command -v "$python")")" && pwd):$PATH"

echo "Fetching ONNX $version ..."
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary onnx \
  --no-build-isolation --dest "$work" "onnx==$version"
echo "$sha256  $work/onnx-$version.tar.gz" | sha256sum --check --quiet
tar -xzf "$work/onnx-$version.tar.gz" -C "$work"

launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
fi
echo "Building ONNX $version ..."
log=$prefix.build.log
if ! {
  # Sources are compiled in large pieces. The namespace, which is also the
  # package of the messages, is OpenXRT's own: libprotobuf refuses a second set of messages of one
  # name in a process.
  cmake -G Ninja -S "$work/onnx-$version" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
    -DONNX_BUILD_PYTHON=OFF -DONNX_ML=1 -DONNX_NAMESPACE=xrt_onnx \
    -DONNX_USE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=32 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON "-DCMAKE_CXX_FLAGS_RELEASE=$flags" \
    -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DCMAKE_VISIBILITY_INLINES_HIDDEN=ON \
    -DCMAKE_INSTALL_PREFIX="$work/prefix" "${launcher[@]}" &&
    cmake --build "$work/build" --target install
} >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "The ONNX C++ library did not build; the whole log is $log" >&2
  exit 1
fi
# The finished prefix appears at once, so that an interrupted build never looks complete.
rm -rf "$prefix"
mv "$work/prefix" "$prefix"
rm -f "$log"
echo "ONNX $version is installed in $prefix."
