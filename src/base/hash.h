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

}  // namespace xrt
