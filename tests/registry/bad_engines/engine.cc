// SPDX-License-Identifier: Apache-2.0
// An engine that takes Relu and fails in the way that XRT_BAD_ENGINE names.
#include "xrt/engine.h"

#include <cstring>
#include <memory>
#include <stdexcept>

namespace {

#ifdef XRT_BAD_ABI
constexpr std::uint32_t kAbi = xrt::kEngineAbi - 1;
#else
constexpr std::uint32_t kAbi = xrt::kEngineAbi;
#endif

class Result final : public xrt::Executable {
 public:
  std::unique_ptr<xrt::RunContext> create_context() const override {
    if (std::string_view(XRT_BAD_ENGINE) == "context") throw std::runtime_error("no stream left");
    return nullptr;
  }
  std::optional<std::string> serialize() const override {
    if (std::string_view(XRT_BAD_ENGINE) == "thrown_serialize") throw 42;  // NOLINT
    if (std::string_view(XRT_BAD_ENGINE) == "thrown_load") return "bytes";
    return std::nullopt;
  }
  void run(xrt::RunContext* /*context*/, std::span<const xrt::Data> /*inputs*/,
           std::span<xrt::Data> outputs, const xrt::RunOptions& /*options*/) const override {
    const std::string_view how = XRT_BAD_ENGINE;
    if (how == "run") throw std::runtime_error("the device fell off");
    if (how == "thrown_run") throw 42;  // NOLINT: no std::exception
    if (how == "shape") outputs[0] = xrt::Tensor::allocate(xrt::DType::kFloat32, {7, 7});
    if (how == "dtype") outputs[0] = xrt::Tensor::allocate(xrt::DType::kInt32, {2});
    if (how == "nothing") outputs[0] = xrt::Data();
  }
};

class BadEngine final : public xrt::Engine {
 public:
  std::string name() const override { return "bad_" XRT_BAD_ENGINE; }
  std::string version() const override { return "1"; }
  bool dynamic_shapes() const override { return true; }
  xrt::Support supports(const xrt::SupportQuery& query) const override {
    if (std::string_view(XRT_BAD_ENGINE) == "supports") throw std::runtime_error("no idea");
    if (std::string_view(XRT_BAD_ENGINE) == "thrown_supports") throw 42;  // NOLINT
    return query.graph.node(query.node).op == "Relu" ? xrt::Support::yes()
                                                     : xrt::Support::no("it is no Relu");
  }
  std::shared_ptr<const xrt::Executable> compile(
      const xrt::Function& /*function*/, const xrt::CompileOptions& /*options*/) const override {
    if (std::string_view(XRT_BAD_ENGINE) == "compile") throw std::runtime_error("out of tactics");
    if (std::string_view(XRT_BAD_ENGINE) == "thrown_compile") throw 42;  // NOLINT
    if (std::string_view(XRT_BAD_ENGINE) == "null") return nullptr;
    return std::make_shared<Result>();
  }
  std::shared_ptr<const xrt::Executable> load(const xrt::Tensor& /*blob*/,
                                              const xrt::Function& /*function*/,
                                              const xrt::CompileOptions& /*opts*/) const override {
    throw 42;  // NOLINT
  }
  std::optional<std::vector<std::string>> option_names() const override {
    return std::vector<std::string>{"tactics", "workspace"};
  }
};

}  // namespace

#ifndef XRT_BAD_NO_SYMBOL
extern "C" __attribute__((visibility("default"))) void xrt_register_engine(
    xrt::EngineRegistry* registry) {
  if (std::string_view(XRT_BAD_ENGINE) == "register") throw std::runtime_error("not today");
  registry->add(std::make_shared<BadEngine>(), kAbi);
}
#endif
