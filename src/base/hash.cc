// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <array>

namespace xrt {

struct Hasher::State {
  alignas(64) XXH3_state_t xxh;
};

std::string Digest::hex() const {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(32);
  for (const std::uint64_t part : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(part >> shift) & 15];
  }
  return text;
}

Digest hash_bytes(const void* data, std::size_t bytes) {
  const XXH128_hash_t h = XXH3_128bits(data, bytes);
  return {h.low64, h.high64};
}

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;

Hasher& Hasher::add_bytes(const void* data, std::size_t bytes) {
  XXH3_128bits_update(&state_->xxh, data, bytes);
  return *this;
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  return add_bytes(text.data(), text.size());
}

Hasher& Hasher::add(std::int64_t value) { return add_bytes(&value, sizeof(value)); }

Digest Hasher::digest() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return {h.low64, h.high64};
}

}  // namespace xrt
