// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/names.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <utf8proc.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/work_scope.h"

namespace xrt {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The bytes of the character that `text` begins with, or 0.
std::size_t character_bytes(std::string_view text) {
  utf8proc_int32_t code_point = 0;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::string with_escapes(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size();) {
    if (const std::size_t bytes = character_bytes(name.substr(i)); bytes > 0) {
      text += name.substr(i, bytes);
      i += bytes;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(name[i++]));
    }
  }
  return text;
}

// Nearly all names are ASCII, in which there is nothing to look for.
bool may_need_escapes(const std::string& name) {
  return std::any_of(name.begin(), name.end(), [](char c) { return (c & 0x80) != 0; });
}

void make_text(Message* message, const FieldDescriptor* field) {
  const google::protobuf::Reflection& access = *message->GetReflection();
  std::string scratch;
  if (!field->is_repeated()) {
    const std::string& name = access.GetStringReference(*message, field, &scratch);
    if (may_need_escapes(name)) access.SetString(message, field, with_escapes(name));
    return;
  }
  for (int i = 0; i < access.FieldSize(*message, field); ++i) {
    const std::string& name = access.GetRepeatedStringReference(*message, field, i, &scratch);
    if (may_need_escapes(name)) access.SetRepeatedString(message, field, i, with_escapes(name));
  }
}

}  // namespace

void make_names_text(onnx::ModelProto& model) {
  std::vector<Message*> left{&model};
  std::vector<const FieldDescriptor*> fields;
  constexpr std::int64_t kOperationsPerMessage = 64;
  TimeCheck clock;
  while (!left.empty()) {
    clock.spend(kOperationsPerMessage);
    Message* const message = left.back();
    left.pop_back();
    const google::protobuf::Reflection& access = *message->GetReflection();
    fields.clear();
    access.ListFields(*message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->type() == FieldDescriptor::TYPE_STRING) {
        make_text(message, field);
      } else if (field->type() != FieldDescriptor::TYPE_MESSAGE ||
                 field->name() == "external_data") {  // names files, whose names may be any bytes
        continue;
      } else if (!field->is_repeated()) {
        left.push_back(access.MutableMessage(message, field));
      } else {
        for (int i = 0; i < access.FieldSize(*message, field); ++i) {
          left.push_back(access.MutableRepeatedMessage(message, field, i));
        }
      }
    }
  }
}

}  // namespace xrt
