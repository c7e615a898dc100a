// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/external_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/work_scope.h"
#include "frontends/inside_folder.h"
#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}

std::size_t parse_size(const std::string& text, const char* key, const std::string& what) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse(fmt::format("{}: the {} '{}' of its external data is not a number", what, key, text));
  }
  return value;
}

}  // namespace

ExternalData::ExternalData(const std::filesystem::path& folder)
    : folder_(canonical_folder(folder)) {}

std::shared_ptr<const MappedFile> ExternalData::file(const std::string& location,
                                                     const std::string& what) {
  const auto found = files_.find(location);
  if (found != files_.end()) return found->second;
  auto mapped = map_inside(folder_, location, what + ": its external data");
  files_.emplace(location, mapped);
  return mapped;
}

Tensor ExternalData::load(const onnx::TensorProto& proto, DType dtype, const Dims& dims,
                          const std::string& what) {
  std::string location;
  std::size_t offset = 0;
  std::optional<std::size_t> length;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_size(entry.value(), "offset", what);
    if (entry.key() == "length") length = parse_size(entry.value(), "length", what);
  }
  const std::size_t wanted = byte_count(dtype, dims);
  if (length && *length != wanted) {
    refuse(fmt::format("{}: its external data has {} bytes, {}{} needs {}", what, *length,
                       to_string(dtype), to_string(dims), wanted));
  }
  const auto mapped = file(location, what);
  if (offset > mapped->size() || wanted > mapped->size() - offset) {
    refuse(fmt::format("{}: bytes {} to {} are outside of '{}', which has {}", what, offset,
                       offset + wanted, location, mapped->size()));
  }
  const std::byte* data = mapped->data() + offset;
  const int bits = bit_width(dtype);
  const auto alignment = static_cast<std::size_t>(std::max(1, std::min(bits / 8, 8)));
  if (reinterpret_cast<std::uintptr_t>(data) % alignment == 0) {
    // Constants are never written, and the mapping is read-only.
    return Tensor::wrap(dtype, dims, const_cast<std::byte*>(data), mapped);
  }
  // Copies count by the files that they are of, not by the model's own size.
  constexpr std::size_t kMostPerByte = 16;
  std::size_t most = 0;
  for (const auto& [name, other] : files_) most += kMostPerByte * other->size();
  if (wanted > most - copied_) {
    throw Error(ErrorCode::kResource,
                fmt::format("{}: copies of unaligned external data take more than {} bytes, {} "
                            "times the size of the files",
                            what, most, kMostPerByte));
  }
  copied_ += wanted;
  const InheritedScope none(nullptr);
  Tensor tensor = Tensor::allocate(dtype, dims);
  if (wanted > 0) std::memcpy(tensor.raw(), data, wanted);
  return tensor;
}

}  // namespace xrt
