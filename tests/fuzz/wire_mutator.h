// SPDX-License-Identifier: Apache-2.0
// Mutations of protobuf messages that stay messages: bytes of a file changed at random are as a
// rule refused at the first length that no longer fits, and never reach what is behind the parser.
//
// No schema is needed: what stands behind a length is taken for a message where it reads as one.
// libFuzzer's entry points are defined here, so one file of a program includes this.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace xrt::fuzz {

struct WireField {
  enum Kind : std::uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };
  std::uint64_t number = 0;
  Kind kind = kVarint;
  std::uint64_t value = 0;        // kVarint
  std::string bytes;              // of the others, but for messages
  std::vector<WireField> fields;  // of a message
  bool is_message = false;
};

using WireFields = std::vector<WireField>;

class WireMutator {
 public:
  explicit WireMutator(unsigned seed) : random_(seed) {}

  // One or more changes of `fields`, which may take some from `other`.
  void mutate(WireFields& fields, const WireFields& other) {
    for (std::size_t n = 1 + below(3); n-- > 0;) change(fields, other);
  }

  static std::optional<WireFields> parse(std::string_view bytes, int depth = 0) {
    WireFields fields;
    while (!bytes.empty()) {
      const std::optional<std::uint64_t> key = varint(bytes);
      if (!key || *key >> 3U == 0) return std::nullopt;
      WireField& field = fields.emplace_back();
      field.number = *key >> 3U;
      field.kind = static_cast<WireField::Kind>(*key & 7U);
      std::optional<std::uint64_t> size;
      switch (field.kind) {
        case WireField::kVarint:
          size = varint(bytes);
          if (!size) return std::nullopt;
          field.value = *size;
          continue;
        case WireField::kFixed64:
          size = 8;
          break;
        case WireField::kFixed32:
          size = 4;
          break;
        case WireField::kLength:
          size = varint(bytes);
          break;
        default:
          return std::nullopt;
      }
      if (!size || *size > bytes.size()) return std::nullopt;
      const std::string_view content = bytes.substr(0, *size);
      bytes.remove_prefix(*size);
      if (field.kind == WireField::kLength && depth < kMaxDepth && content.size() > 1) {
        if (std::optional<WireFields> inner = parse(content, depth + 1)) {
          field.fields = *std::move(inner);
          field.is_message = true;
          continue;
        }
      }
      field.bytes = content;
    }
    return fields;
  }

  static std::string serialize(const WireFields& fields) {
    std::string out;
    for (const WireField& field : fields) {
      put_varint(out, field.number << 3U | field.kind);
      if (field.kind == WireField::kVarint) {
        put_varint(out, field.value);
        continue;
      }
      const std::string inner = field.is_message ? serialize(field.fields) : field.bytes;
      if (field.kind == WireField::kLength) put_varint(out, inner.size());
      out += inner;
    }
    return out;
  }

 private:
  static constexpr int kMaxDepth = 20;

  static std::optional<std::uint64_t> varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  static void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7FU) | 0x80U);
    out += static_cast<char>(value);
  }

  std::size_t below(std::size_t n) { return random_() % std::max<std::size_t>(n, 1); }

  // A list of fields at any depth. One with many below it is taken as often as one with few.
  WireFields& some_list(WireFields& fields) {
    std::vector<WireFields*> inner;
    for (WireField& field : fields) {
      if (field.is_message && !field.fields.empty()) inner.push_back(&field.fields);
    }
    if (inner.empty() || below(4) == 0) return fields;
    return some_list(*inner[below(inner.size())]);
  }

  static void collect(const WireFields& fields, const WireField& like,
                      std::vector<const WireField*>& found) {
    for (const WireField& field : fields) {
      if (field.number == like.number && field.kind == like.kind) found.push_back(&field);
      collect(field.fields, like, found);
    }
  }

  std::uint64_t number(std::uint64_t before) {
    constexpr auto kValues = std::to_array<std::int64_t>(
        {0, 1, -1, 2, 3, 4, 7, 8, 16, 255, 65536, std::numeric_limits<std::int32_t>::max(),
         std::numeric_limits<std::int32_t>::min(), std::int64_t{1} << 40,
         std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()});
    switch (below(4)) {
      case 0:
        return before + 1;
      case 1:
        return before - 1;
      case 2:
        return below(20);
      default:
        return static_cast<std::uint64_t>(kValues[below(kValues.size())]);
    }
  }

  void change_bytes(std::string& bytes, bool fixed) {
    std::string buffer = bytes;
    buffer.resize(bytes.size() + (fixed ? 0 : 16));
    const std::size_t size = LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(buffer.data()),
                                              bytes.size(), buffer.size());
    if (fixed && size != bytes.size()) return;
    bytes = buffer.substr(0, size);
  }

  void change(WireFields& all, const WireFields& other) {
    WireFields& list = some_list(all);
    if (list.empty()) return;
    const auto at = static_cast<std::ptrdiff_t>(below(list.size()));
    WireField& field = list[static_cast<std::size_t>(at)];
    switch (below(10)) {
      case 0:
        list.erase(list.begin() + at);
        return;
      case 1: {
        WireField copy = field;
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(below(list.size() + 1)),
                    std::move(copy));
        return;
      }
      case 2:
        std::swap(field, list[below(list.size())]);
        return;
      case 3:
      case 4:
      case 5: {  // what another field of the number holds: a name, a type, a node
        std::vector<const WireField*> found;
        collect(below(3) == 0 ? other : all, field, found);
        if (found.empty()) return;
        WireField copy = *found[below(found.size())];
        if (below(3) == 0) {
          list.insert(list.begin() + at, std::move(copy));
        } else {
          field = std::move(copy);
        }
        return;
      }
      default:
        if (field.kind == WireField::kVarint) {
          field.value = number(field.value);
        } else if (field.is_message) {
          change(field.fields, other);
        } else {
          change_bytes(field.bytes, field.kind != WireField::kLength);
        }
    }
  }

  std::minstd_rand random_;
};

// `data` as libFuzzer's entry points have it; `other` as another input of the corpus, or nothing.
inline std::size_t mutate_message(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                  std::string_view other, unsigned seed) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::optional<WireFields> fields = WireMutator::parse(bytes);
  constexpr unsigned kRaw = 10;  // one of so many times: damage to the form itself
  if (!fields || fields->empty() || seed % kRaw == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::optional<WireFields> lent = WireMutator::parse(other);
  WireMutator(seed).mutate(*fields, lent ? *lent : *fields);
  const std::string made = WireMutator::serialize(*fields);
  if (made.empty() || made.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, made.data(), made.size());
  return made.size();
}

}  // namespace xrt::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return xrt::fuzz::mutate_message(data, size, max_size, {}, seed);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data, std::size_t size,
                                                 const std::uint8_t* other, std::size_t other_size,
                                                 std::uint8_t* out, std::size_t max_out,
                                                 unsigned seed) {
  if (size > max_out) return 0;
  std::memcpy(out, data, size);
  return xrt::fuzz::mutate_message(out, size, max_out,
                                   {reinterpret_cast<const char*>(other), other_size}, seed | 1U);
}
