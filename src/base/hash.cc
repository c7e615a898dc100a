// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the plain names then take AVX2 or AVX-512 where the CPU has them
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace xrt {
namespace {

// Parts of this size are hashed on their own, by several threads where there are several.
constexpr std::size_t kChunk = std::size_t{4} << 20;

}  // namespace

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

Digest hash_large(const void* data, std::size_t bytes, int threads) {
  const auto* begin = static_cast<const std::byte*>(data);
  std::vector<Digest> parts((bytes + kChunk - 1) / kChunk);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < parts.size();) {
      parts[i] = hash_bytes(begin + i * kChunk, std::min(kChunk, bytes - i * kChunk));
    }
  };
  std::vector<std::jthread> helpers;
  // A thread costs about as much as half a chunk.
  const std::size_t useful = std::min(static_cast<std::size_t>(std::max(threads, 1)), parts.size());
  for (std::size_t t = 1; t < useful; ++t) helpers.emplace_back(work);
  work();
  helpers.clear();
  Hasher hasher;
  for (const Digest& part : parts) {
    hasher.add(static_cast<std::int64_t>(part.low)).add(static_cast<std::int64_t>(part.high));
  }
  return hasher.add(static_cast<std::int64_t>(bytes)).digest();
}

LargeHasher::LargeHasher() = default;

LargeHasher& LargeHasher::add_bytes(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes_ += bytes;
  while (bytes > 0) {
    const std::size_t n = std::min(bytes, kChunk - filled_);
    if (n == kChunk) {
      end_part(hash_bytes(from, n));
    } else {
      if (part_ == nullptr) part_ = std::make_unique<Hasher>();
      part_->add_bytes(from, n);
      filled_ += n;
      if (filled_ == kChunk) flush();
    }
    from += n;
    bytes -= n;
  }
  return *this;
}

void LargeHasher::flush() {
  end_part(part_->digest());
  part_ = nullptr;
  filled_ = 0;
}

void LargeHasher::end_part(const Digest& part) {
  whole_.add(static_cast<std::int64_t>(part.low)).add(static_cast<std::int64_t>(part.high));
}

Digest LargeHasher::finish() {
  if (filled_ > 0) flush();
  return whole_.add(static_cast<std::int64_t>(bytes_)).digest();
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
