// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/importer.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/work_scope.h"
#include "frontends/foreign_files.h"
#include "frontends/onnx/external_data.h"
#include "frontends/onnx/import_files.h"
#include "frontends/onnx/message_scan.h"
#include "frontends/onnx/names.h"
#include "ir/verifier.h"
#include "onnx/contributed/ops.h"
#include "onnx/reader.h"
#include "onnx/upgrade.h"
#include "ops/node_inference.h"
#include "ops/own_ops.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::int64_t kOldestOpset = 1;

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}

// `told` is what foreign_kind() says.
[[noreturn]] void no_model(const std::string& otherwise, const std::string& told) {
  invalid("not an ONNX model" + (told.empty() ? otherwise : ": " + told));
}

// What an import makes that the file does not hold as it is.
struct ImportRoom {
  ImportRoom(std::size_t file_bytes, std::size_t max_memory_bytes) {
    // A node of short names with a few attributes is up to 20 times its bytes once it is parsed. A
    // varint of one byte is an int64, and there is room for copies.
    constexpr std::size_t kMostPerByte = 24;
    constexpr std::size_t kMostBeside = std::size_t{256} << 20;
    constexpr std::size_t kLeastBeside = std::size_t{1} << 20;  // the messages of a small model
    const std::size_t beside =
        max_memory_bytes > 0 ? std::max(max_memory_bytes, kLeastBeside) : kMostBeside;
    most = file_bytes * kMostPerByte + beside;  // no file is so large that this overflows
    text = fmt::format("{} times the file's size and {}", kMostPerByte,
                       max_memory_bytes > 0 ? "max_memory_bytes" : "256 MiB");
  }

  std::size_t most;
  std::string text;
  std::shared_ptr<MemoryAccount> account = std::make_shared<MemoryAccount>();
};

std::shared_ptr<onnx::ModelProto> parse(std::string_view bytes, const ImportBounds& bounds,
                                        const ImportRoom& room) {
  if (const std::string kind = foreign_kind(bytes); !kind.empty()) no_model("", kind);
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(ErrorCode::kUnsupported,
                "the model itself is over 2 GB, which protobuf cannot hold: store its weights as "
                "external data");
  }
  // Nodes and values of the graph, with the names that the import looks up. Without
  // max_memory_bytes max_nodes alone bounds them.
  constexpr std::size_t kBytesOfNode = 1024;
  const MessageScan scan(bytes, {.max_bytes = room.most,
                                 .max_bytes_text = room.text,
                                 .bytes_of_node = bounds.max_memory_bytes > 0 ? kBytesOfNode : 0,
                                 .max_nodes = bounds.max_nodes});
  room.account->bytes += static_cast<std::int64_t>(scan.parsed_bytes());
  auto model = std::make_shared<onnx::ModelProto>();
  if (!scan.parse(*model)) {
    no_model(", or a damaged one, or one of bodies nested too deeply: its bytes are no ModelProto",
             foreign_message_kind(bytes));
  }
  if (!model->has_graph()) no_model(": it has no graph", foreign_message_kind(bytes));
  make_names_text(*model);
  return model;
}

void check_opset(const Opsets& opsets, const std::string& what) {
  const auto it = opsets.find("");
  if (it == opsets.end()) return;  // only ops of other domains, or an error at the first node
  if (it->second < kOldestOpset || it->second > kOnnxOpset) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} uses opset {} of the ONNX standard; {} to {} are supported", what,
                            it->second, kOldestOpset, kOnnxOpset));
  }
}

// Whether some node is rewritten by the types of its operands. `graph` is a GraphProto or a
// FunctionProto.
template <typename Proto>
bool reads_types(const Proto& graph, const Opsets& opsets) {
  const auto in_bodies = [&](const onnx::NodeProto& node) {
    return std::any_of(node.attribute().begin(), node.attribute().end(), [&](const auto& a) {
      return (a.has_g() && reads_types(a.g(), opsets)) ||
             std::any_of(a.graphs().begin(), a.graphs().end(),
                         [&](const auto& g) { return reads_types(g, opsets); });
    });
  };
  return std::any_of(graph.node().begin(), graph.node().end(), [&](const auto& node) {
    const std::string domain(normal_domain(node.domain()));
    const auto declared = opsets.find(domain);
    const std::int64_t version = declared == opsets.end() ? 1 : declared->second;
    return is_contributed_op(domain, node.op_type(), version) ||
           (domain.empty() && upgrade_reads_types(node.op_type(), version)) || in_bodies(node);
  });
}

Graph build(const std::shared_ptr<onnx::ModelProto>& model, ExternalData* external,
            const ImportBounds& bounds) {
  register_own_ops();  // a model may hold them: what Graph::to_onnx() wrote of a training graph
  ReadOptions options;
  options.max_nodes = bounds.max_nodes;
  options.opsets = opsets_of(*model);
  check_opset(options.opsets, "the model");
  options.inputs_have_defaults = model->ir_version() >= 4;
  options.upgrade = upgrade_node;
  options.translates = is_contributed_op;
  NodeInference inference;
  options.translate = translate_contributed_op;
  const bool typed = reads_types(model->graph(), options.opsets) ||
                     std::any_of(model->functions().begin(), model->functions().end(),
                                 [](const auto& f) { return reads_types(f, opsets_of(f)); });
  if (typed) options.infer = [&](Graph& graph, NodeId node) { inference.run(graph, node); };
  options.tensors.owner = model;
  if (external != nullptr) {
    options.tensors.external = [external](const onnx::TensorProto& proto, DType dtype,
                                          const Dims& dims, const std::string& what) {
      return external->load(proto, dtype, dims, what);
    };
  }
  for (const auto& function : model->functions()) {
    check_opset(opsets_of(function), fmt::format("function '{}'", function.name()));
    const std::string key = function_key(function.domain(), function.name(), function.overload());
    if (!options.functions.emplace(key, &function).second) {
      invalid(fmt::format("function '{}' is defined twice", function.name()));
    }
  }
  Graph graph = Reader(std::move(options)).read(model->graph());
  for (const auto& entry : model->metadata_props()) {
    graph.metadata()[entry.key()] = entry.value();
  }
  infer_shapes_of_file(graph);
  if (finish_upgrade(graph)) infer_shapes_of_file(graph);
  verify(graph);
  return graph;
}

Graph import(std::string_view bytes, ExternalData* external, const ImportBounds& bounds) {
  const ImportRoom room(bytes.size(), bounds.max_memory_bytes);
  const WorkScope scope(room.account, room.most);
  return build(parse(bytes, bounds, room), external, bounds);
}

template <typename Act>
Graph guarded(const std::string& name, Act act) {
  try {
    return act();
  } catch (const Error& e) {
    throw Error(e.code(), name + ": " + e.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResource, name + ": out of memory");
  } catch (const std::exception& e) {
    invalid(name + ": " + e.what());
  }
}

}  // namespace

Graph import_onnx(const std::filesystem::path& path) {
  std::vector<ExternalFile> files;
  return import_onnx(path, files);
}

Graph import_onnx(const std::filesystem::path& path, std::vector<ExternalFile>& files,
                  const ImportBounds& bounds) {
  return guarded("'" + path.string() + "'", [&] {
    const auto file = MappedFile::open(path);
    ExternalData external(path.parent_path());
    Graph graph =
        import({reinterpret_cast<const char*>(file->data()), file->size()}, &external, bounds);
    for (const auto& [location, mapped] : external.files()) files.push_back({location, mapped});
    return graph;
  });
}

Graph import_onnx_bytes(std::string_view bytes) { return import_onnx_bytes(bytes, {}); }

Graph import_onnx_bytes(std::string_view bytes, const ImportBounds& bounds) {
  return guarded("ONNX model", [&] { return import(bytes, nullptr, bounds); });
}

}  // namespace xrt
