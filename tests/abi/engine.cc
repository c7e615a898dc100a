// SPDX-License-Identifier: Apache-2.0
// An engine that sees every kind of thing that crosses the border of the contract.
#include "xrt/engine.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

// One node: LeakyRelu, Mul by a constant, or StringConcat.
class AbiExecutable final : public xrt::Executable {
 public:
  explicit AbiExecutable(const xrt::Function& function) {
    for (const xrt::NodeId id : function.graph.nodes()) {
      const xrt::NodeView node = function.graph.node(id);
      op_ = std::string(node.op());
      if (op_ == "LeakyRelu") alpha_ = node.attr_float("alpha", 0.01F);
      for (const xrt::ValueId input : node.inputs()) {
        const xrt::TensorView constant = function.graph.constant(input);
        if (constant.defined()) kept_ = constant.share();
      }
    }
    model_bytes_ = function.to_onnx(1024).size();
  }

  xrt::ExecutableInfo info() const override {
    return {.workspace_bytes = 64,
            .weight_bytes = kept_ ? kept_->bytes() : 0,
            .threads = 1,
            .remarks = {"the model of " + std::to_string(model_bytes_) + " bytes was read"}};
  }

  std::unique_ptr<xrt::RunContext> create_context() const override {
    return std::make_unique<Context>();
  }

  void run(const xrt::RunArgs& args) const override {
    auto& context = static_cast<Context&>(*args.context());
    if (++context.runs < 1) throw xrt::Error(xrt::ErrorCode::kInternal, "a context of nobody's");
    const xrt::TensorView x = args.input(0);
    if (op_ == "StringConcat") {
      const xrt::TensorView y = args.input(1);
      if (!args.output(0).defined()) args.allocate_output(0, x.dtype(), x.dims());
      for (std::int64_t i = 0; i < x.count(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        args.set_output_string(0, at, std::string(x.string(at)) + std::string(y.string(at)));
      }
      return;
    }
    const xrt::TensorView given = args.output(0);
    auto* to = static_cast<float*>(given.defined() ? given.raw()
                                                   : args.allocate_output(0, x.dtype(), x.dims()));
    const auto* from = x.data<float>();
    for (std::int64_t i = 0; i < x.count(); ++i) {
      if (from[i] > 1e30F) throw xrt::Error(xrt::ErrorCode::kInvalidArgument, "too large a number");
      if (op_ == "LeakyRelu") to[i] = from[i] < 0 ? alpha_ * from[i] : from[i];
      if (op_ == "Mul") to[i] = from[i] * kept_->data<float>()[i % kept_->count()];
    }
  }

  std::optional<std::string> serialize() const override { return "abi " + op_; }

 private:
  struct Context final : xrt::RunContext {
    int runs = 0;
  };
  std::string op_;
  float alpha_ = 0;
  std::shared_ptr<const xrt::TensorView> kept_;
  std::size_t model_bytes_ = 0;
};

class AbiEngine final : public xrt::Engine {
 public:
  const xrt::EngineInfo& info() const override { return info_; }
  std::vector<std::string> ops() const override { return {"LeakyRelu", "Mul", "StringConcat"}; }

  xrt::Support supports(const xrt::SupportQuery& query) const override {
    const xrt::NodeView node = query.graph.node(query.node);
    if (query.phase == xrt::Phase::kTraining) return xrt::Support::no("inference only");
    const bool known = node.op() == "LeakyRelu" || node.op() == "StringConcat" ||
                       (node.op() == "Mul" && query.graph.constant(node.input(1)).defined());
    if (!known) return xrt::Support::no("no lowering of " + node.qualified_op());
    const xrt::TypeView type = query.graph.type(node.output(0));
    const xrt::DType wanted =
        node.op() == "StringConcat" ? xrt::DType::kString : xrt::DType::kFloat32;
    if (type.dtype() != wanted) return xrt::Support::no("not for " + xrt::to_string(type));
    return xrt::Support::yes();
  }

  std::shared_ptr<const xrt::Executable> compile(
      const xrt::Function& function, const xrt::CompileOptions& options) const override {
    if (options.engine_options.contains("fail")) throw std::runtime_error("as it was told");
    options.progress("compiling", 0.5);
    return std::make_shared<AbiExecutable>(function);
  }

  std::shared_ptr<const xrt::Executable> load(const xrt::TensorView& blob,
                                              const xrt::Function& function,
                                              const xrt::CompileOptions& options) const override {
    if (std::string_view(blob.data<const char>(), blob.bytes()).substr(0, 4) != "abi ") {
      throw xrt::Error(xrt::ErrorCode::kInvalidModel, "these bytes are of no engine");
    }
    return compile(function, options);
  }

 private:
  xrt::EngineInfo info_ = {
      .name = "abi",
      .version = "1.0",
      .options = {{"fail", xrt::EngineOption::Kind::kBool, "false", "compilations fail"}},
      .shapes = xrt::Shapes::kAny};
};

}  // namespace

XRT_ENGINE(AbiEngine)
