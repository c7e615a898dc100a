// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/control/custom_op.h"

#include <memory>
#include <new>
#include <utility>

#include "ops/op_registry.h"
#include "xrt/op.h"

namespace xrt::native {
namespace {

// One run, with what the graph says about the outputs.
class Run final : public OpRun {
 public:
  Run(KernelContext& context, const std::vector<Type>& outputs)
      : context_(context), outputs_(outputs), made_(outputs.size()) {}

  std::size_t input_count() const override { return context_.input_count(); }
  bool has_input(std::size_t i) const override { return context_.has_input(i); }
  const Tensor& input(std::size_t i) const override { return context_.input(i); }
  std::size_t output_count() const override { return outputs_.size(); }

  Tensor& output(std::size_t i, const Dims& dims) override {
    const DType dtype = i < outputs_.size() ? outputs_[i].dtype : DType::kUndefined;
    if (i < outputs_.size() && dtype == DType::kUndefined) {
      fail(i, "its dtype is not known: the kernel must say it");
    }
    return output(i, dtype, dims);
  }

  Tensor& output(std::size_t i, DType dtype, const Dims& dims) override {
    if (i >= outputs_.size()) fail(i, "there is no such output");
    const Type& type = outputs_[i];
    bool fits = type.dtype == DType::kUndefined || type.dtype == dtype;
    if (type.shape) {
      fits = fits && type.shape->size() == dims.size();
      for (std::size_t d = 0; fits && d < dims.size(); ++d) {
        const Dim& dim = (*type.shape)[d];
        fits = !dim.is_known() || dim.value() == dims[d];
      }
    }
    if (!fits) {
      fail(i, "it was inferred to be " + to_string(type) + ", the kernel wants " +
                  std::string(to_string(dtype)) + to_string(dims));
    }
    if (made_[i]) fail(i, "the kernel asked for its memory twice");
    made_[i] = true;
    return context_.output(i, dtype, dims);
  }

  void parallel_for(std::int64_t n, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& part) const override {
    context_.parallel_for(n, grain, part);
  }

  void check_complete() const {
    for (std::size_t i = 0; i < made_.size(); ++i) {
      if (!made_[i] && context_.wants_output(i)) fail(i, "the kernel did not write it");
    }
  }

 private:
  [[noreturn]] static void fail(std::size_t i, const std::string& problem) {
    throw Error(ErrorCode::kEngine, "output " + std::to_string(i) + ": " + problem);
  }

  KernelContext& context_;
  const std::vector<Type>& outputs_;
  std::vector<bool> made_;
};

OpKernel make(const OpDefinition& op, const KernelCreateContext& node) {
  const Attributes attributes = complete_attributes(op, node.node());
  OpCall call{attributes};
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    call.input_types.push_back(node.input_type(i));
    call.constants.push_back(node.constant_input(i));
  }
  OpKernel kernel;
  try {
    kernel = op.create(call);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kEngine, std::string("its kernel cannot be made: ") + error.what());
  }
  if (!kernel) throw Error(ErrorCode::kEngine, "its kernel cannot be made: there is none");
  return kernel;
}

std::unique_ptr<Kernel> create(const KernelCreateContext& node) {
  const RegisteredOp* op = registered_op(node.graph(), node.node());
  std::vector<Type> outputs;
  for (std::size_t i = 0; i < node.output_count(); ++i) outputs.push_back(node.output_type(i));
  return make_kernel(
      [kernel = make(op->definition, node), outputs = std::move(outputs)](KernelContext& context) {
        Run run(context, outputs);
        kernel(run);
        run.check_complete();
      });
}

}  // namespace

const KernelDef* custom_op_kernel(const NodeView& node) {
  static const KernelDef def = [] {
    KernelDef one;
    one.create = create;
    return one;
  }();
  const RegisteredOp* op = registered_op(node.graph(), node.node());
  return op != nullptr && op->definition.create ? &def : nullptr;
}

}  // namespace xrt::native
