// SPDX-License-Identifier: Apache-2.0
#include "host_model.h"

#include <fmt/format.h>

#include <mutex>

#include "xrt/error.h"
#include "xrt_lite_hal.h"

namespace xrt::lite {

void register_drivers() {
  static std::once_flag once;
  std::call_once(once, [] {
    check(xrt_lite_register_driver(xrt_lite_generic_driver()), "the driver 'generic'");
    check(xrt_lite_register_driver(xrt_lite_cortex_m_driver()), "the driver 'cortex-m'");
#ifdef XRT_LITE_HAS_X86
    check(xrt_lite_register_driver(xrt_lite_x86_driver()), "the driver 'x86'");
#endif
#ifdef XRT_LITE_HAS_ARM
    check(xrt_lite_register_driver(xrt_lite_arm_driver()), "the driver 'arm'");
#endif
#ifdef XRT_LITE_HAS_ASCEND
    check(xrt_lite_register_driver(xrt_lite_ascend_driver()), "the driver 'ascend'");
#endif
#ifdef XRT_LITE_HAS_CUDA
    check(xrt_lite_register_driver(xrt_lite_cuda_driver()), "the driver 'cuda'");
#endif
  });
}

void check(xrt_lite_status status, const std::string& what) {
  if (status == XRT_LITE_OK) return;
  ErrorCode code = ErrorCode::kInvalidModel;
  switch (status) {
    case XRT_LITE_INVALID_ARGUMENT:
    case XRT_LITE_NOT_READY:
    case XRT_LITE_OUT_OF_RANGE:
      code = ErrorCode::kInvalidArgument;
      break;
    case XRT_LITE_OUT_OF_MEMORY:
      code = ErrorCode::kResource;
      break;
    case XRT_LITE_NO_DRIVER:
    case XRT_LITE_UNSUPPORTED:
      code = ErrorCode::kUnsupported;
      break;
    case XRT_LITE_DEVICE_ERROR:
      code = ErrorCode::kEngine;
      break;
    case XRT_LITE_NO_DEVICE:
      code = ErrorCode::kNotFound;
      break;
    case XRT_LITE_IO:
      code = ErrorCode::kIo;
      break;
    default:
      break;
  }
  throw Error(code, fmt::format("{}: {}", what, xrt_lite_message(status)));
}

namespace {

Port port_of(const xrt_lite_port& p) {
  return {p.name, Type::tensor(static_cast<DType>(p.dtype), Dims(p.dims, p.dims + p.rank)), false};
}

}  // namespace

HostModel::HostModel(const std::filesystem::path& path, int threads, bool verify_weights)
    : name_(path.string()) {
  register_drivers();
  const int count = threads > 0 ? threads : thread_budget();
  if (count > 1) threads_.reset(xrt_lite_threads_create(count));
  xrt_lite_load_options options = {};
  options.verify_weights = verify_weights ? 1 : 0;
  xrt_lite_model* model = nullptr;
  check(xrt_lite_load_file(name_.c_str(), &options, &model), name_);
  model_.reset(model);
  xrt_lite_context_options context_options = {};
  context_options.threads = threads_.get();
  xrt_lite_context* context = nullptr;
  check(xrt_lite_context_create(model, &context_options, &context), name_);
  context_.reset(context);
  xrt_lite_port port;
  for (std::int32_t i = 0; i < xrt_lite_input_count(model); ++i) {
    check(xrt_lite_input(model, i, &port), name_);
    inputs_.push_back(port_of(port));
  }
  for (std::int32_t i = 0; i < xrt_lite_output_count(model); ++i) {
    check(xrt_lite_output(model, i, &port), name_);
    outputs_.push_back(port_of(port));
  }
}

std::vector<Tensor> HostModel::allocate_outputs() const {
  std::vector<Tensor> result;
  for (const Port& p : outputs_) {
    result.push_back(Tensor::allocate(p.type.dtype, *p.type.static_dims()));
  }
  return result;
}

void HostModel::bind(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {} inputs and {} outputs are wanted",
                                                         name_, inputs_.size(), outputs_.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Type& want = inputs_[i].type;
    if (inputs[i].dtype() != want.dtype || inputs[i].dims() != *want.static_dims()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("input '{}' must be {}, not {}{}", inputs_[i].name, to_string(want),
                              to_string(inputs[i].dtype()), to_string(inputs[i].dims())));
    }
    check(xrt_lite_set_input(context_.get(), static_cast<std::int32_t>(i), inputs[i].raw(),
                             inputs[i].bytes()),
          "input '" + inputs_[i].name + "'");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check(xrt_lite_set_output(context_.get(), static_cast<std::int32_t>(i), outputs[i].raw(),
                              outputs[i].bytes()),
          "output '" + outputs_[i].name + "'");
  }
}

void HostModel::run() { check(xrt_lite_run(context_.get()), name_); }

}  // namespace xrt::lite
