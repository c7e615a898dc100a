// SPDX-License-Identifier: Apache-2.0
// 128-bit content hashes (XXH3): cache keys, checksums, digests of weights. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "xrt/export.h"

namespace xrt {

struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Digest&) const = default;
  std::string hex() const;  // 32 lower-case digits
};

XRT_API Digest hash_bytes(const void* data, std::size_t bytes);

// The digest of a large block, by up to `threads` threads; the same for any number of them. It is
// not hash_bytes() of the block.
XRT_API Digest hash_large(const void* data, std::size_t bytes, int threads);

// Hashes a sequence of fields. Strings are preceded by their length, so that ("ab","c") and
// ("a","bc") differ.
class XRT_API Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& add_bytes(const void* data, std::size_t bytes);
  Hasher& add(std::string_view text);
  Hasher& add(std::int64_t value);
  Digest digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// hash_large() of bytes that come in pieces.
class XRT_API LargeHasher {
 public:
  LargeHasher();
  LargeHasher& add_bytes(const void* data, std::size_t bytes);
  Digest finish();  // once

 private:
  void flush();
  void end_part(const Digest& part);

  Hasher whole_;
  std::unique_ptr<Hasher> part_;  // of the part begun
  std::size_t filled_ = 0, bytes_ = 0;
};

}  // namespace xrt
