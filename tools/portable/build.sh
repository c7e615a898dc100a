#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes what a build with -DXRT_PORTABLE=PREFIX links against, so that its libraries load on any machine
# with glibc 2.28 and the libstdc++ of GCC 8 (manylinux_2_28), although this machine has newer ones:
#
#   glibc      libraries of names alone and the start files of 2.28, which Zig makes (PyPI: ziglang)
#   libstdc++  a library of names that ends with GCC 8's; what is newer comes from libstdc++_pic.a
#   compat.c   the functions of newer C libraries that are called nevertheless
#   the rest   Debian's sources of the libraries whose headers are used, compiled as static libraries
#
#   tools/portable/build.sh PREFIX
#
# XRT_PYTHON names a Python with ziglang; Debian's packages of the line "wheel:" of
# tools/debian-packages.txt are needed. It takes about five minutes on two cores.
set -euo pipefail

prefix=${1:?usage: tools/portable/build.sh PREFIX}
python=${XRT_PYTHON:-python3}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
glibc=2.28
jobs=${XRT_JOBS:-$(nproc)}

if [[ -e $prefix/complete ]]; then exit 0; fi
mkdir -p "$(dirname "$prefix")"
exec 9>"$prefix.lock"
flock 9
if [[ -e $prefix/complete ]]; then exit 0; fi
work=$(mktemp -d "$prefix.build.XXXXXX")
trap 'rm -rf "$work"' EXIT
rm -rf "$prefix"
mkdir -p "$work/stage"
stage=$work/stage

# --- the C library's names ----------------------------------------------------------------------
printf 'int main(void) { return 0; }\n' >"$work/empty.c"
told=$("$python" -m ziglang cc -target "x86_64-linux-gnu.$glibc" "$work/empty.c" -pie -fPIE \
  -o "$work/empty" -lm -lpthread -ldl -lrt --verbose 2>&1 | grep '^ld.lld ' | tail -n 1)
for word in $told; do
  case ${word##*/} in
    lib*.so.[0-9]* | libc_nonshared.a | Scrt1.o) cp "$word" "$stage" ;;
  esac
done
[[ -e $stage/libc.so.6 && -e $stage/libc_nonshared.a && -e $stage/Scrt1.o ]] || {
  echo "Zig did not name its libraries: $told" >&2
  exit 1
}
# Of the first, functions that glibc 2.34 took into libc.so.6.
cc -O2 -fPIC -c "$here/compat.c" -o "$work/compat.o"
ar rcs "$stage/libxrt_compat.a" "$work/compat.o"
echo "GROUP ( libc.so.6 libc_nonshared.a libxrt_compat.a AS_NEEDED ( libpthread.so.0 libdl.so.2 \
librt.so.1 libld.so.2 ) )" >"$stage/libc.so"
for name in m.so.6 pthread.so.0 dl.so.2 rt.so.1 util.so.1; do
  ln -s "lib$name" "$stage/lib${name%%.*}.so"
done

# --- the C++ library's names ----------------------------------------------------------------------
"$python" "$here/libstdcxx_stub.py" "$(cc -print-file-name=libstdc++.so.6)" "$work"
cc -shared -nostdlib -fuse-ld=bfd -Wl,-soname,libstdc++.so.6 \
  "-Wl,--version-script=$work/libstdcxx.map" "$work/libstdcxx.s" -o "$stage/libstdc++.so.6"
archive=$(cc -print-file-name=libstdc++_pic.a)
[[ -e $archive ]] || {
  echo "libstdc++_pic.a was not found (Debian: libstdc++-12-pic)" >&2
  exit 1
}
cp "$archive" "$stage/libstdc++_new.a"
echo 'INPUT ( libstdc++.so.6 libstdc++_new.a )' >"$stage/libstdc++.so"

# --- other libraries ------------------------------------------------------------------------------
# source_of PACKAGE: unpacks the source that Debian's package was made from and says where it lies: of the
# newest of Debian's revisions that is to be had. The version of the library is that of the headers.
mkdir -p "$work"/apt/{lists,cache/archives}/partial "$work/src"
# The machine's own sources, asked for source packages.
mkdir -p "$work/apt/parts"
for file in /etc/apt/sources.list.d/*.sources; do
  [[ -e $file ]] && sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/apt/parts/${file##*/}"
done
sed -n 's/^deb /deb-src /p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
  >"$work/apt/sources.list" 2>/dev/null || true
options=(-qq -o "Dir::Etc::sourcelist=$work/apt/sources.list" -o "Dir::Etc::sourceparts=$work/apt/parts"
  -o "Dir::State::lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache"
  -o APT::Sandbox::User=root)
apt-get "${options[@]}" update
source_of() {
  local package version folder revision
  read -r package version < <(dpkg-query -W -f='${source:Package} ${source:Upstream-Version}\n' "$1")
  folder=$work/src/$package-${version#*:}
  for revision in $(apt-cache "${options[@]}" showsrc "$package" | sed -n 's/^Version: //p' |
    sort --version-sort --reverse --unique); do
    [[ $revision == "$version"-* || ${revision#*:} == "$version"-* ]] || continue
    if (cd "$work/src" && apt-get "${options[@]}" source "$package=$revision" >"$work/source.log" 2>&1); then
      echo "$folder"
      return
    fi
  done
  cat "$work/source.log" >&2
  echo "the source of $1 $version is not to be had" >&2
  return 1
}

flags="-O2 -fPIC -g0 -DNDEBUG"
launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
fi
# build NAME TARGET FOLDER OPTION...: the static library libNAME.a by CMake.
build() {
  local name=$1 target=$2 folder=$3
  shift 3
  cmake -G Ninja -S "$folder" -B "$work/build-$name" -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags" \
    -DBUILD_SHARED_LIBS=OFF "${launcher[@]}" "$@" >"$work/$name.log" 2>&1 &&
    cmake --build "$work/build-$name" -j "$jobs" --target "$target" >>"$work/$name.log" 2>&1 || {
    tail -n 30 "$work/$name.log" >&2
    echo "$name did not build" >&2
    exit 1
  }
  cp "$(find "$work/build-$name" -name "lib$name.a" | head -n 1)" "$stage"
}
# archive NAME FOLDER FILE...: a static library of few files.
archive() {
  local name=$1 folder=$2 file objects=() compiler
  shift 2
  for file in "$@"; do
    compiler=cc
    [[ $file != *.cc ]] || compiler="c++ -std=c++20"
    objects+=("$work/$name-$(basename "$file").o")
    $compiler $flags -I"$folder" -I"$folder/include" -DHAVE_UNISTD_H -D_LARGEFILE64_SOURCE=1 \
      -c "$folder/$file" -o "${objects[-1]}"
  done
  ar rcs "$stage/lib$name.a" "${objects[@]}"
}

folder=$(source_of zlib1g-dev)
archive z "$folder" adler32.c crc32.c deflate.c infback.c inffast.c inflate.c inftrees.c trees.c \
  zutil.c compress.c uncompr.c gzclose.c gzlib.c gzread.c gzwrite.c
folder=$(source_of libutf8proc-dev)
archive utf8proc "$folder" utf8proc.c
folder=$(source_of libxxhash-dev)
archive xxhash "$folder" xxhash.c xxh_x86dispatch.c
folder=$(source_of libfmt-dev)
archive fmt "$folder" src/format.cc src/os.cc
build png16 png_static "$(source_of libpng-dev)" -DPNG_SHARED=OFF -DPNG_TESTS=OFF
build jpeg jpeg-static "$(source_of libjpeg62-turbo-dev)" -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF
build zip zip "$(source_of libzip-dev)" -DENABLE_COMMONCRYPTO=OFF -DENABLE_GNUTLS=OFF \
  -DENABLE_MBEDTLS=OFF -DENABLE_OPENSSL=OFF -DENABLE_BZIP2=OFF -DENABLE_LZMA=OFF -DENABLE_ZSTD=OFF \
  -DHAVE_ARC4RANDOM=OFF -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF
# Debian's source leaves out the tables of Unicode, which are made of its package unicode-data.
folder=$(source_of libre2-dev)
make -s -C "$folder" REBUILD_TABLES=1 re2/perl_groups.cc re2/unicode_casefold.cc re2/unicode_groups.cc
build re2 re2 "$folder" -DRE2_BUILD_TESTING=OFF
build spdlog spdlog "$(source_of libspdlog-dev)" -DSPDLOG_FMT_EXTERNAL=ON \
  -DSPDLOG_BUILD_EXAMPLE=OFF -DSPDLOG_BUILD_TESTS=OFF
build protobuf libprotobuf "$(source_of libprotobuf-dev)" -Dprotobuf_BUILD_TESTS=OFF \
  -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_WITH_ZLIB=OFF
touch "$stage/complete"
mv "$stage" "$prefix"
echo "Libraries to link against for glibc $glibc are in $prefix."
