// SPDX-License-Identifier: Apache-2.0
// A graph as OpenVINO's ONNX frontend reads it: node by node, without a serialised model between.
//
// The frontend asks for decoders in order: those of the graph's inputs and outputs, then one per
// node in topological order. Constants reach it by pointer into the memory of their tensors. Names
// are unique over the graph and all its sub-graphs, because the frontend resolves what a sub-graph
// captures by name.
//
// The iterator reads the graph only until the model is converted; both must live that long.
#pragma once

#include <map>
#include <memory>
#include <openvino/frontend/onnx/decoder.hpp>
#include <openvino/frontend/onnx/graph_iterator.hpp>
#include <string>
#include <vector>

#include "xrt/graph.h"

namespace xrt::openvino {

class GraphDecoder : public ov::frontend::onnx::GraphIterator,
                     public std::enable_shared_from_this<GraphDecoder> {
 public:
  // Constants of at least `lifted_bytes` are shown as inputs, after those of the graph: the
  // frontend would copy their data.
  explicit GraphDecoder(const Graph& graph, std::size_t lifted_bytes);
  // A sub-graph: `outer` is the decoder of the graph around, `prefix` makes its names unique.
  GraphDecoder(const Graph& graph, const GraphDecoder& outer, std::string prefix);

  std::size_t size() const override { return decoders_.size(); }
  void reset() override { position_ = 0; }
  void next() override { ++position_; }
  bool is_end() const override { return position_ >= decoders_.size(); }
  std::shared_ptr<ov::frontend::onnx::DecoderBase> get_decoder() const override {
    return decoders_[position_];
  }
  int64_t get_opset_version(const std::string& domain) const override;
  std::map<std::string, std::string> get_metadata() const override { return {}; }
  std::filesystem::path get_model_dir() const override { return {}; }

  // How the frontend names and sees a value of this graph.
  const ov::frontend::onnx::TensorMetaInfo& info(ValueId id) const;
  const std::string& value_name(ValueId id) const { return *info(id).m_tensor_name; }
  // The constants that are shown as inputs.
  const std::vector<ValueId>& lifted() const { return lifted_; }
  const std::string& prefix() const { return prefix_; }
  const Graph& graph() const { return graph_; }

 private:
  void build(const GraphDecoder* outer, std::size_t lifted_bytes);

  const Graph& graph_;
  std::string prefix_;
  std::vector<std::unique_ptr<std::string>> names_;  // by ValueId, stable addresses
  std::vector<ov::frontend::onnx::TensorMetaInfo> infos_;
  ov::frontend::onnx::TensorMetaInfo absent_;
  std::vector<std::shared_ptr<ov::frontend::onnx::DecoderBase>> decoders_;
  std::vector<ValueId> lifted_;
  std::size_t position_ = 0;
};

// The meta information of a constant's data, for inputs and attributes.
ov::frontend::onnx::TensorMetaInfo tensor_info(const Tensor& tensor, const std::string* name);

}  // namespace xrt::openvino
