// SPDX-License-Identifier: Apache-2.0
#include "onnx/exporter.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/file.h"
#include "onnx/writer.h"
#include "xrt/error.h"
#include "xrt/version.h"

namespace xrt {
namespace {

// The IR version that came with each opset (the version table of ONNX's releases).
std::int64_t ir_version_of(std::int64_t opset) {
  constexpr auto kFirstOpset = std::to_array<std::pair<std::int64_t, std::int64_t>>(
      {{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}});
  for (const auto& [first, ir] : kFirstOpset) {
    if (opset >= first) return ir;
  }
  return 6;
}

// The IR version that brought an element type.
std::int64_t ir_version_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
      return 9;
    case DType::kUInt4:
    case DType::kInt4:
      return 10;
    case DType::kFloat4E2M1:
      return 11;
    case DType::kFloat8E8M0:
      return 12;
    case DType::kUInt2:
    case DType::kInt2:
      return 13;
    default:
      return 0;
  }
}

void add_external(const std::string& location, std::uint64_t offset, std::size_t length,
                  const Tensor& tensor, onnx::TensorProto* proto) {
  proto->set_data_type(static_cast<int>(tensor.dtype()));
  for (const std::int64_t d : tensor.dims()) proto->add_dims(d);
  proto->set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    auto* entry = proto->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
}

// `store` takes the tensors that are not inline.
std::string serialise(const Graph& graph, const ExportOptions& options, const TensorWriter& store) {
  onnx::ModelProto model;
  model.set_producer_name("openxrt");
  model.set_producer_version(std::string(version()));
  std::int64_t ir_version = 0;
  const auto write_tensor = [&](const Tensor& tensor, onnx::TensorProto* proto) {
    ir_version = std::max(ir_version, ir_version_of(tensor.dtype()));
    if (tensor.dtype() == DType::kString || tensor.bytes() <= options.inline_limit) {
      tensor_to_proto(tensor, proto);
    } else {
      store(tensor, proto);
    }
  };
  graph_to_proto(graph, write_tensor, model.mutable_graph());
  for (const auto& [domain, version] : opsets_in_use(graph)) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
    if (domain.empty()) ir_version = std::max(ir_version, ir_version_of(version));
  }
  model.set_ir_version(ir_version);
  for (const auto& [key, value] : graph.metadata()) {
    auto* entry = model.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  if (model.ByteSizeLong() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("graph '{}' is over 2 GB, which one ONNX file cannot hold: export it "
                            "to a file with a lower inline_limit",
                            graph.name()));
  }
  std::string bytes;
  if (!model.SerializeToString(&bytes)) {
    throw Error(ErrorCode::kInternal, "graph '" + graph.name() + "' could not be serialised");
  }
  return bytes;
}

}  // namespace

std::string export_onnx(const Graph& graph, const ExportOptions& options) {
  return serialise(graph, options, [&](const Tensor& tensor, onnx::TensorProto* proto) {
    add_external(options.location, reinterpret_cast<std::uintptr_t>(tensor.raw()), tensor.bytes(),
                 tensor, proto);
  });
}

std::map<std::string, std::int64_t> exported_opsets(const Graph& graph) {
  return opsets_in_use(graph);
}

void export_onnx_file(const Graph& graph, const std::filesystem::path& path,
                      const ExportOptions& options) {
  constexpr std::uint64_t kAlignment = 4096;  // so that a consumer can map the tensors
  const std::filesystem::path data_path = path.string() + ".data";
  // Neither is put before both are on the disk: a failure leaves an older model and its data.
  std::optional<NewFile> data;
  std::uint64_t end = 0;
  // Shared memory is stored once. Looked up only, so that addresses decide nothing.
  std::map<std::pair<const void*, std::size_t>, std::uint64_t> offsets;
  const auto store = [&](const Tensor& tensor, onnx::TensorProto* proto) {
    const auto [it, fresh] = offsets.emplace(std::pair(tensor.raw(), tensor.bytes()),
                                             (end + kAlignment - 1) / kAlignment * kAlignment);
    add_external(data_path.filename().string(), it->second, tensor.bytes(), tensor, proto);
    if (!fresh) return;
    if (!data) data.emplace(data_path);
    data->write(std::string(it->second - end, '\0'));
    data->write({tensor.data<char>(), tensor.bytes()});
    end = it->second + tensor.bytes();
  };
  const std::string bytes = serialise(graph, options, store);
  NewFile model(path);
  model.write(bytes);
  model.flush();
  if (data) data->put();
  model.put();
}

}  // namespace xrt
