// SPDX-License-Identifier: Apache-2.0
#include "isolation/isolated_engine.h"

#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/handles.h"
#include "isolation/description.h"
#include "isolation/isolated_executable.h"
#include "isolation/names.h"
#include "isolation/worker_pool.h"
#include "isolation/worker_process.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Why the value cannot cross; empty where it can.
std::string why_it_stays(const Type& type) {
  if (!type.is_tensor()) return "is no tensor";
  if (type.dtype == DType::kString) return "is a tensor of strings";
  if (type.shape && type.shape->size() > kMostDims) {
    return "has more than " + std::to_string(kMostDims) + " dimensions";
  }
  return {};
}

Support crosses(const Graph& graph, NodeId id) {
  const auto refused = [&](ValueId v) {
    const std::string why = v.valid() ? why_it_stays(graph.type(v)) : std::string();
    return why.empty() ? why : "'" + graph.value(v).name + "' " + why;
  };
  const Node& node = graph.node(id);
  for (const std::vector<ValueId>& values : {graph.dependencies(id), node.outputs}) {
    for (const ValueId v : values) {
      if (const std::string why = refused(v); !why.empty()) {
        return Support::no(why + ", which stays in this process");
      }
    }
  }
  return Support::yes();
}

class IsolatedEngine final : public Engine {
 public:
  IsolatedEngine(const std::string& name, std::vector<std::string> command)
      : pool_(std::make_shared<WorkerPool>(name, std::move(command))) {
    FlatReader reader(pool_->worker()->description());
    reader.number();  // the status, which start() has looked at
    info_ = read_description(reader);
    if (info_.name != base_engine(name)) {
      throw Error(ErrorCode::kEngine, "its worker has the engine '" + info_.name + "'");
    }
    info_.name = name;
    pool_->set_self_contained(info_.self_contained);
  }

  const EngineInfo& info() const override { return info_; }

  std::vector<std::string> ops() const override {
    FlatWriter question;
    FlatReader answer(pool_->worker()->call(Message::kOps, question));
    std::vector<std::string> names(answer.count());
    for (std::string& name : names) name = answer.text();
    return names;
  }

  Support supports(const SupportQuery& query) const override {
    return supports_all(query).at(static_cast<std::size_t>(query.node.index));
  }

  // Of a query with a node: that node's answer, the others are no.
  std::vector<Support> supports_all(const SupportQuery& query) const override {
    const Graph& graph = graph_of(query.graph);
    const std::vector<NodeId> order = graph.topological_order();
    std::vector<Support> answers(graph.node_capacity(), Support::no("it was not asked"));
    std::int64_t position = -1;
    for (std::size_t i = 0; query.node.valid() && i < order.size(); ++i) {
      if (order[i] == query.node) position = static_cast<std::int64_t>(i);
    }
    const std::shared_ptr<WorkerProcess> worker = pool_->worker();
    SentGraph sent(*worker, graph);
    FlatWriter& question = sent.writer();
    sent.write();
    question.number(position).text(query.device);
    question.number(static_cast<std::int64_t>(query.phase));
    question.number(static_cast<std::int64_t>(query.mutable_inputs.size()));
    for (const std::int32_t input : query.mutable_inputs) question.number(input);
    FlatReader reader(worker->call(Message::kSupports, question));
    for (const NodeId id : order) {
      if (query.node.valid() && id != query.node) continue;
      const bool yes = reader.number() != 0;
      std::string reason = reader.text();
      answers.at(static_cast<std::size_t>(id.index)) =
          yes ? crosses(graph, id) : Support::no(std::move(reason));
    }
    return answers;
  }

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    return make_isolated_executable(pool_, function, options, {});
  }

  std::shared_ptr<const Executable> load(const TensorView& blob, const Function& function,
                                         const CompileOptions& options) const override {
    return make_isolated_executable(pool_, function, options, tensor_of(blob));
  }

 private:
  std::shared_ptr<WorkerPool> pool_;
  EngineInfo info_;
};

}  // namespace

std::shared_ptr<const Engine> make_isolated_engine(std::string name,
                                                   std::vector<std::string> command) {
  return std::make_shared<IsolatedEngine>(name, std::move(command));
}

}  // namespace xrt
