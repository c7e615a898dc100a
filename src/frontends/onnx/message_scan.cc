// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/message_scan.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/work_scope.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// How a field is written: the low bits of its tag; the others are its number.
enum class WireType : std::uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};
constexpr unsigned kWireTypeBits = 3;

// Bytes of protobuf 3.21 and of the C library's heap on 64 bits, beside what a thing holds itself:
// the heap's header and rounding, the pointer in a list that doubles, the list's first block.
constexpr std::size_t kBesideMessage = 64;
constexpr std::size_t kText = 64;  // a std::string of its own, and the same
constexpr std::size_t kTextInPlace = 15;
constexpr std::size_t kTextBlock = 16;
constexpr std::size_t kNumber = 16;         // an int64 in a list that doubles, or an unknown number
constexpr std::size_t kUnknownNumber = 32;  // a field that the schema does not have, which is kept
constexpr std::size_t kUnknownText = 80;
constexpr std::size_t kUnknownGroup = 96;

// Messages in messages, as protobuf has it; beyond, it refuses the file.
constexpr std::size_t kMostDepth = 128;

constexpr std::size_t kBetweenLooks = std::size_t{1} << 20;

struct Field {
  enum class Kind : std::uint8_t { kUnknown, kNumber, kEnum, kText, kMessage };
  Kind kind = Kind::kUnknown;
  bool is_list = false;
  std::uint8_t packed = 1;  // bytes in memory for one of a packed list in the file
  std::size_t message = 0;  // in Schema::messages
  std::size_t entry = 0;    // in Schema::names
};

struct MessageKind {
  std::size_t bytes = 0;
  std::vector<Field> fields;  // by number
};

// The fields of ModelProto and of all messages in it.
class Schema {
 public:
  static const Schema& get() {
    static const Schema schema;
    return schema;
  }

  std::vector<MessageKind> messages;  // the first is ModelProto
  std::vector<std::string> names;     // "GraphProto.node"; the first is of unknown fields
  std::size_t node = 0;               // in messages
  std::size_t graph_field = 0;        // ModelProto's, in names

 private:
  Schema() : names{"fields that ONNX does not know"} {
    index_of(onnx::ModelProto::descriptor());
    for (std::size_t m = 0; m < left_.size(); ++m) add(left_[m], m);
    node = index_of(onnx::NodeProto::descriptor());
    graph_field = messages[0].fields.at(onnx::ModelProto::kGraphFieldNumber).entry;
  }

  std::size_t index_of(const Descriptor* descriptor) {
    const auto [at, is_new] = known_.emplace(descriptor, left_.size());
    if (is_new) left_.push_back(descriptor);
    return at->second;
  }

  void add(const Descriptor* descriptor, std::size_t place) {
    MessageKind kind;
    const auto* empty =
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor);
    kind.bytes = empty->SpaceUsedLong() + kBesideMessage;
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor& given = *descriptor->field(i);
      const auto number = static_cast<std::size_t>(given.number());
      if (kind.fields.size() <= number) kind.fields.resize(number + 1);
      Field& field = kind.fields[number];
      field.is_list = given.is_repeated();
      field.entry = names.size();
      names.push_back(descriptor->name() + "." + given.name());
      switch (given.cpp_type()) {
        case FieldDescriptor::CPPTYPE_MESSAGE:
          field.kind = Field::Kind::kMessage;
          field.message = index_of(given.message_type());
          break;
        case FieldDescriptor::CPPTYPE_STRING:
          field.kind = Field::Kind::kText;
          break;
        case FieldDescriptor::CPPTYPE_ENUM:
          field.kind = Field::Kind::kEnum;
          field.packed = sizeof(std::int32_t);
          break;
        case FieldDescriptor::CPPTYPE_FLOAT:
        case FieldDescriptor::CPPTYPE_DOUBLE:
          field.kind = Field::Kind::kNumber;  // as many bytes as in the file
          break;
        case FieldDescriptor::CPPTYPE_INT32:
        case FieldDescriptor::CPPTYPE_UINT32:
        case FieldDescriptor::CPPTYPE_BOOL:
          field.kind = Field::Kind::kNumber;  // of one byte or more
          field.packed = sizeof(std::int32_t);
          break;
        case FieldDescriptor::CPPTYPE_INT64:
        case FieldDescriptor::CPPTYPE_UINT64:
          field.kind = Field::Kind::kNumber;
          field.packed = sizeof(std::int64_t);
          break;
      }
    }
    if (messages.size() <= place) messages.resize(place + 1);
    messages[place] = std::move(kind);
  }

  std::map<const Descriptor*, std::size_t> known_;
  std::vector<const Descriptor*> left_;
};

// Reads what protobuf reads, and ends where protobuf would refuse the bytes.
class Scanner {
 public:
  Scanner(std::string_view bytes, const MessageBounds& bounds, std::vector<std::size_t>& looks)
      : schema_(Schema::get()),
        begin_(reinterpret_cast<const std::uint8_t*>(bytes.data())),
        bounds_(bounds),
        looks_(looks),
        counts_(schema_.names.size()),
        bytes_of_(schema_.names.size()),
        total_(schema_.messages[0].bytes) {
    open_[0] = {&schema_.messages[0], begin_ + bytes.size(), false, false};
  }

  std::size_t run() {
    const std::uint8_t* at = begin_;
    const std::uint8_t* look = at;
    while (true) {
      while (at == open_[depth_].end) {
        // A group ends with a tag of its own.
        if (depth_ == 0 || open_[depth_].is_group) return total_;
        --depth_;
      }
      if (at - look >= static_cast<std::ptrdiff_t>(kBetweenLooks)) {
        looks_.push_back(static_cast<std::size_t>(at - begin_));
        look = at;
      }
      clock_.spend(kOperationsPerField);
      at = field(at);
      if (at == nullptr) return total_;
    }
  }

 private:
  static constexpr std::int64_t kOperationsPerField = 4;

  struct Open {
    const MessageKind* kind = nullptr;  // null: of a field that is not known
    const std::uint8_t* end = nullptr;
    bool in_graph = false;
    bool is_group = false;
  };

  static std::optional<std::uint64_t> varint(const std::uint8_t*& at, const std::uint8_t* end) {
    constexpr int kMostBits = 64;
    std::uint64_t value = 0;
    for (int shift = 0; shift < kMostBits && at != end; shift += 7) {
      const std::uint8_t byte = *at++;
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80U) return value;
    }
    return std::nullopt;
  }

  // What follows the field at `at`, or its first one; null where it is none.
  const std::uint8_t* field(const std::uint8_t* at) {
    const std::uint8_t* const end = open_[depth_].end;
    const auto tag = varint(at, end);
    if (!tag) return nullptr;
    const auto number = static_cast<std::uint32_t>(*tag) >> kWireTypeBits;
    if (number == 0) return nullptr;
    static constexpr Field kNone;
    const MessageKind* const kind = open_[depth_].kind;
    const Field& field =
        kind != nullptr && number < kind->fields.size() ? kind->fields[number] : kNone;
    const auto skip = [&](std::size_t bytes) {
      return static_cast<std::size_t>(end - at) < bytes ? nullptr : at + bytes;
    };
    switch (static_cast<WireType>(*tag & ((1U << kWireTypeBits) - 1))) {
      case WireType::kVarint:
        charge_number(field);
        return varint(at, end) ? at : nullptr;
      case WireType::kFixed32:
        charge_number(field);
        return skip(sizeof(std::uint32_t));
      case WireType::kFixed64:
        charge_number(field);
        return skip(sizeof(std::uint64_t));
      case WireType::kLength: {
        const auto length = varint(at, end);
        if (!length || *length > static_cast<std::uint64_t>(end - at)) return nullptr;
        return with_length(field, at, static_cast<std::size_t>(*length));
      }
      case WireType::kStartGroup:
        charge(kNone, kUnknownGroup);
        return open({nullptr, end, false, true}) ? at : nullptr;
      case WireType::kEndGroup:
        if (!open_[depth_].is_group) return nullptr;
        --depth_;
        return at;
    }
    return nullptr;
  }

  const std::uint8_t* with_length(const Field& field, const std::uint8_t* at, std::size_t length) {
    switch (field.kind) {
      case Field::Kind::kMessage: {
        const MessageKind& kind = schema_.messages[field.message];
        const bool in_graph = open_[depth_].in_graph || field.entry == schema_.graph_field;
        const bool is_node = &kind == &schema_.messages[schema_.node];
        if (in_graph && is_node) count_node();
        charge(field, kind.bytes + (is_node ? bounds_.bytes_of_node : 0));
        return open({&kind, at + length, in_graph, false}) ? at : nullptr;
      }
      case Field::Kind::kNumber:
      case Field::Kind::kEnum:
        if (!field.is_list) break;
        charge(field, length * field.packed);
        return at + length;
      case Field::Kind::kText:
        charge(field, kText + (length > kTextInPlace ? length + kTextBlock : 0));
        return at + length;
      case Field::Kind::kUnknown:
        break;
    }
    charge({}, kUnknownText + length);
    return at + length;
  }

  void charge_number(const Field& field) {
    // A number that is none of an enumeration is kept as an unknown field.
    const bool is_known = field.kind == Field::Kind::kNumber || field.kind == Field::Kind::kEnum;
    charge(is_known ? field : Field{}, is_known ? kNumber : kUnknownNumber);
  }

  bool open(const Open& message) {
    if (depth_ + 1 == kMostDepth) return false;
    open_[++depth_] = message;
    return true;
  }

  void count_node() {
    if (++nodes_ <= bounds_.max_nodes) return;
    throw Error(ErrorCode::kResource,
                fmt::format("the model has more than {} nodes (max_nodes)", bounds_.max_nodes));
  }

  void charge(const Field& field, std::size_t bytes) {
    ++counts_[field.entry];
    bytes_of_[field.entry] += bytes;
    total_ += bytes;
    if (total_ > bounds_.max_bytes) refuse();
  }

  [[noreturn]] void refuse() const {
    const auto most = static_cast<std::size_t>(
        std::max_element(bytes_of_.begin(), bytes_of_.end()) - bytes_of_.begin());
    throw Error(
        ErrorCode::kResource,
        fmt::format("its messages take more than {} bytes once they are read ({}): there "
                    "are {} or more {}",
                    bounds_.max_bytes, bounds_.max_bytes_text, counts_[most], schema_.names[most]));
  }

  const Schema& schema_;
  const std::uint8_t* const begin_;
  const MessageBounds& bounds_;
  std::vector<std::size_t>& looks_;
  std::vector<std::size_t> counts_, bytes_of_;  // by Schema::names
  std::size_t total_;
  std::int64_t nodes_ = 0;
  std::array<Open, kMostDepth> open_;
  std::size_t depth_ = 0;
  TimeCheck clock_;
};

// Ends early where the thread's time is over: no exception goes through protobuf.
class TimedStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  TimedStream(std::string_view bytes, const std::vector<std::size_t>& looks)
      : bytes_(bytes), looks_(looks), limit_(WorkScope::time_limit()) {}

  bool Next(const void** data, int* size) override {
    if (at_ == bytes_.size() || (limit_ != nullptr && limit_->is_over())) return false;
    const auto next = std::upper_bound(looks_.begin(), looks_.end(), at_);
    const std::size_t end = next == looks_.end() ? bytes_.size() : *next;
    *data = bytes_.data() + at_;
    *size = static_cast<int>(end - at_);
    at_ = end;
    return true;
  }
  void BackUp(int count) override { at_ -= static_cast<std::size_t>(count); }
  bool Skip(int count) override {
    const std::size_t skipped = std::min(bytes_.size() - at_, static_cast<std::size_t>(count));
    at_ += skipped;
    return skipped == static_cast<std::size_t>(count);
  }
  std::int64_t ByteCount() const override { return static_cast<std::int64_t>(at_); }

 private:
  const std::string_view bytes_;
  const std::vector<std::size_t>& looks_;
  const RunLimit* const limit_;
  std::size_t at_ = 0;
};

}  // namespace

MessageScan::MessageScan(std::string_view bytes, const MessageBounds& bounds)
    : bytes_(bytes), parsed_bytes_(Scanner(bytes, bounds, looks_).run()) {}

bool MessageScan::parse(onnx::ModelProto& model) const {
  TimedStream stream(bytes_, looks_);
  const bool is_model = model.ParseFromZeroCopyStream(&stream);
  WorkScope::check_time();
  return is_model;
}

}  // namespace xrt
