// SPDX-License-Identifier: Apache-2.0
// Any bytes given as a file of arrays, of records, of a cache or of a training state are read or
// are an xrt::Error. The first byte says which: a digit, in the seeds. Checksums are made right
// first, so that mutations reach what is behind them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "cache/cache_entry.h"
#include "data/labelled_set.h"
#include "data/npy.h"
#include "ir/flat.h"
#include "memory_file.h"
#include "plan/plan.h"
#include "training/parts.h"
#include "xrt/error.h"

namespace {

xrt::fuzz::MemoryFile& file() {
  static xrt::fuzz::MemoryFile file;
  return file;
}

void read_all(const xrt::LabelledSource& source) {
  const auto set = xrt::open_labelled_set(source);
  for (std::size_t i = 0; i < set->size(); ++i) {
    set->place(i);
    try {
      set->read(i);
    } catch (const xrt::Error&) {  // others can be used
    }
  }
}

void arrays(std::string_view bytes) {
  file().write(bytes);
  std::size_t total = 0;
  for (const auto& [name, tensor] : xrt::read_npz(file().path())) total += tensor.bytes();
  // Texts are objects of 32 bytes and take less in the file; deflate shrinks to a thousandth.
  constexpr std::size_t kMostPerByte = 64 * 1100;
  if (total > kMostPerByte * bytes.size()) std::abort();
}

void labelled_arrays(std::string_view bytes) {
  file().write(bytes);
  xrt::LabelledSource source;
  source.path = file().path();
  source.format = "arrays";
  source.without_labels = true;
  read_all(source);
}

void part_file(std::string_view bytes) {
  file().write(bytes);
  xrt::LabelledSource source;
  source.path = file().path();
  source.format = "ofrecord";
  read_all(source);
}

// Places within an entry of the cache: what src/cache/cache_entry.cc writes.
struct Entry {
  std::size_t numbers = 0;  // lengths of the payload's front and rest, and the rest's digest
  std::size_t payload = 0;
};

std::uint64_t number_at(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

bool find_entry(std::string_view bytes, Entry& entry) {
  constexpr std::size_t kNumber = sizeof(std::uint64_t);
  std::size_t at = 8 + sizeof(std::uint32_t);  // the magic and the format
  for (int text = 0; text < 5; ++text) {
    if (at > bytes.size() || bytes.size() - at < kNumber) return false;
    const std::uint64_t size = number_at(bytes, at);
    if (size > bytes.size() - at - kNumber) return false;
    at += kNumber + size;
  }
  entry.numbers = at;
  entry.payload = (at + 4 * kNumber + 63) / 64 * 64;
  return entry.payload <= bytes.size() && bytes.size() - entry.payload >= 2 * kNumber;
}

void cache_entry(std::string_view bytes) {
  std::string mended(bytes);
  Entry entry;
  if (find_entry(mended, entry)) {
    const std::size_t end = mended.size() - 16;
    const std::size_t payload = end - entry.payload;
    const std::size_t front = std::min<std::size_t>(number_at(mended, entry.numbers), payload);
    const auto digest = [&](std::size_t at, std::size_t size) {
      return xrt::hash_large(mended.data() + at, size, 1);
    };
    const xrt::Digest rest = digest(entry.payload + front, payload - front);
    const std::uint64_t numbers[] = {front, payload - front, rest.low, rest.high};
    std::memcpy(mended.data() + entry.numbers, numbers, sizeof(numbers));
    const xrt::Digest of_front = digest(entry.payload, front);
    xrt::Hasher hasher;
    hasher.add(file().path().stem().string());
    hasher.add(std::string_view(mended).substr(0, entry.payload));
    hasher.add(static_cast<std::int64_t>(of_front.low));
    hasher.add(static_cast<std::int64_t>(of_front.high));
    const xrt::Digest checksum = hasher.digest();
    std::memcpy(mended.data() + end, &checksum.low, 8);
    std::memcpy(mended.data() + end + 8, &checksum.high, 8);
  }
  file().write(mended);
  const auto read = xrt::read_entry(file().path());
  if (!read) return;
  xrt::difference(read->header, xrt::EntryHeader());
  xrt::FlatReader reader(read->payload);
  xrt::read_plan(reader);
}

void checkpoint(std::string_view bytes) {
  constexpr std::size_t kDigestAt = 16, kSizeAt = 48, kHeaderBytes = 64;
  std::string mended(bytes);
  if (mended.size() >= kHeaderBytes) {
    xrt::Hasher hasher;
    const std::uint64_t size = mended.size() - kHeaderBytes;
    hasher.add_bytes(mended.data() + kHeaderBytes, size);
    mended.replace(kDigestAt, kSizeAt - kDigestAt, hasher.digest().hex());
    std::memcpy(mended.data() + kSizeAt, &size, sizeof(size));
  }
  file().write(mended);
  for (const auto& [name, tensor] : xrt::read_checkpoint(file().path()).state) {
    if (tensor.defined() && tensor.dtype() != xrt::DType::kString) tensor.clone();
  }
}

constexpr auto kFiles = std::to_array<void (*)(std::string_view)>(
    {arrays, labelled_arrays, part_file, cache_entry, checkpoint});

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    kFiles[static_cast<std::uint8_t>(bytes[0] - '0') % kFiles.size()](bytes.substr(1));
  } catch (const xrt::Error& error) {
    if (error.code() == xrt::ErrorCode::kInternal) std::abort();
  }
  return 0;
}
