// SPDX-License-Identifier: Apache-2.0
// A checkpoint file: a header of 64 bytes (magic, digest, size), then a flat block (ir/flat.h).
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "ir/flat.h"
#include "training/parts.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::string_view kMagic = "openxrt-state-2\n";
constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kDigestBytes = 32;

std::string digest_of(const FlatWriter::Pieces& pieces) {
  Hasher hasher;
  for (const std::string_view piece : pieces) hasher.add_bytes(piece.data(), piece.size());
  return hasher.digest().hex();
}

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& how) {
  throw Error(ErrorCode::kInvalidModel, fmt::format("checkpoint '{}': {}", path.string(), how));
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  FlatWriter writer;
  writer.number(checkpoint.step);
  writer.number(std::bit_cast<std::int64_t>(checkpoint.learning_rate));
  writer.number(checkpoint.scaled ? 1 : 0);
  writer.number(std::bit_cast<std::int64_t>(checkpoint.loss_scale.scale));
  writer.number(checkpoint.loss_scale.in_a_row).number(checkpoint.loss_scale.skipped);
  writer.number(static_cast<std::int64_t>(checkpoint.state.size()));
  for (const auto& [name, tensor] : checkpoint.state) writer.text(name).tensor(tensor);
  FlatWriter::Pieces pieces = writer.finish();
  std::uint64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  std::string header(kMagic);
  header += digest_of(pieces);
  header.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  header.resize(kHeaderBytes);
  pieces.insert(pieces.begin(), header);
  write_output_file(path, pieces);
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const auto* data = reinterpret_cast<const char*>(file->data());
  if (file->size() < kHeaderBytes || std::memcmp(data, kMagic.data(), kMagic.size()) != 0) {
    damaged(path, "it is not a checkpoint of this library");
  }
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, data + kMagic.size() + kDigestBytes, sizeof(bytes));
  if (bytes != file->size() - kHeaderBytes) {
    damaged(path, fmt::format("it is truncated: {} bytes follow the header, not {}",
                              file->size() - kHeaderBytes, bytes));
  }
  const std::string_view body(data + kHeaderBytes, bytes);
  Hasher hasher;
  hasher.add_bytes(body.data(), body.size());
  if (hasher.digest().hex() != std::string_view(data + kMagic.size(), kDigestBytes)) {
    damaged(path, "its checksum does not fit its content");
  }
  FlatReader reader(Tensor::wrap(DType::kUInt8, {static_cast<std::int64_t>(bytes)},
                                 const_cast<char*>(body.data()), file));
  Checkpoint checkpoint;
  checkpoint.step = reader.number();
  checkpoint.learning_rate = std::bit_cast<double>(reader.number());
  checkpoint.scaled = reader.number() != 0;
  checkpoint.loss_scale.scale = std::bit_cast<double>(reader.number());
  checkpoint.loss_scale.in_a_row = reader.number();
  checkpoint.loss_scale.skipped = reader.number();
  const std::size_t count = reader.count();
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = reader.text();
    checkpoint.state.emplace(std::move(name), reader.tensor());
  }
  reader.end();
  return checkpoint;
}

}  // namespace xrt
