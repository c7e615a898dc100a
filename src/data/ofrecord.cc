// SPDX-License-Identifier: Apache-2.0
#include "data/ofrecord.h"

#include <cstring>
#include <type_traits>

#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void damaged_record() {
  throw Error(ErrorCode::kInvalidArgument, "the record is damaged: it is no OFRecord");
}

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

// A message, field by field.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // Goes to the next field; what was not read of the one before must have been skipped.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field_ = key >> 3U;
    type_ = static_cast<WireType>(key & 7U);
    if (field_ == 0) damaged_record();
    return true;
  }
  bool is(std::uint64_t field, WireType type) const { return field_ == field && type_ == type; }
  std::uint64_t field() const { return field_; }
  WireType type() const { return type_; }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) damaged_record();
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    damaged_record();
  }
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) damaged_record();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::string_view bytes() { return take(varint()); }
  void skip() {
    switch (type_) {
      case WireType::kVarint:
        varint();
        return;
      case WireType::kFixed64:
        take(8);
        return;
      case WireType::kLength:
        bytes();
        return;
      case WireType::kFixed32:
        take(4);
        return;
    }
    damaged_record();  // groups are of the past, and 6 and 7 are nothing
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  std::uint64_t field_ = 0;
  WireType type_ = WireType::kVarint;
};

template <typename T>
void append_number(WireReader& reader, std::vector<T>& values) {
  if constexpr (std::is_floating_point_v<T>) {
    T value;
    std::memcpy(&value, reader.take(sizeof(T)).data(), sizeof(T));
    values.push_back(value);
  } else {
    values.push_back(static_cast<T>(reader.varint()));
  }
}

template <typename T>
Tensor parse_numbers(std::string_view list, DType dtype) {
  constexpr WireType kAlone = std::is_same_v<T, float>    ? WireType::kFixed32
                              : std::is_same_v<T, double> ? WireType::kFixed64
                                                          : WireType::kVarint;
  std::vector<T> values;
  WireReader reader(list);
  while (reader.next()) {
    if (reader.is(1, WireType::kLength)) {
      WireReader packed(reader.bytes());
      while (!packed.at_end()) append_number(packed, values);
    } else if (reader.is(1, kAlone)) {
      append_number(reader, values);
    } else {
      reader.skip();
    }
  }
  return Tensor::from<T>(dtype, {static_cast<std::int64_t>(values.size())}, values);
}

std::vector<std::string_view> parse_bytes(std::string_view list) {
  std::vector<std::string_view> values;
  WireReader reader(list);
  while (reader.next()) {
    if (reader.is(1, WireType::kLength)) {
      values.push_back(reader.bytes());
    } else {
      reader.skip();
    }
  }
  return values;
}

OfRecordFeature parse_feature(std::string_view message) {
  using Kind = OfRecordFeature::Kind;
  OfRecordFeature feature;
  WireReader reader(message);
  while (reader.next()) {
    if (reader.type() != WireType::kLength || reader.field() > 5) {
      reader.skip();
      continue;
    }
    const std::string_view list = reader.bytes();
    feature = {};  // of several the last one counts
    feature.kind = static_cast<Kind>(reader.field());
    switch (feature.kind) {
      case Kind::kBytes:
        feature.bytes = parse_bytes(list);
        break;
      case Kind::kFloat:
        feature.numbers = parse_numbers<float>(list, DType::kFloat32);
        break;
      case Kind::kDouble:
        feature.numbers = parse_numbers<double>(list, DType::kFloat64);
        break;
      case Kind::kInt32:
        feature.numbers = parse_numbers<std::int32_t>(list, DType::kInt32);
        break;
      default:
        feature.numbers = parse_numbers<std::int64_t>(list, DType::kInt64);
    }
  }
  return feature;
}

}  // namespace

std::map<std::string_view, OfRecordFeature> parse_ofrecord(std::string_view record) {
  std::map<std::string_view, OfRecordFeature> features;
  WireReader reader(record);
  while (reader.next()) {
    if (!reader.is(1, WireType::kLength)) {
      reader.skip();
      continue;
    }
    std::string_view name, message;
    WireReader entry(reader.bytes());
    while (entry.next()) {
      if (entry.is(1, WireType::kLength)) {
        name = entry.bytes();
      } else if (entry.is(2, WireType::kLength)) {
        message = entry.bytes();
      } else {
        entry.skip();
      }
    }
    features[name] = parse_feature(message);
  }
  return features;
}

}  // namespace xrt
