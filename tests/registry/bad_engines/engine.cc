// SPDX-License-Identifier: Apache-2.0
// An engine that takes Relu and fails in the way that XRT_BAD_ENGINE names.
#include "xrt/engine.h"

#include <cstring>
#include <memory>
#include <stdexcept>

namespace {

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
  void run(const xrt::RunArgs& args) const override {
    const std::string_view how = XRT_BAD_ENGINE;
    if (how == "run") throw std::runtime_error("the device fell off");
    if (how == "thrown_run") throw 42;  // NOLINT: no std::exception
    const std::int64_t square[] = {7, 7};
    const std::int64_t two[] = {2};
    if (how == "shape") args.allocate_output(0, xrt::DType::kFloat32, square);
    if (how == "dtype") args.allocate_output(0, xrt::DType::kInt32, two);
  }
};

class BadEngine final : public xrt::Engine {
 public:
  const xrt::EngineInfo& info() const override { return info_; }
  xrt::Support supports(const xrt::SupportQuery& query) const override {
    if (std::string_view(XRT_BAD_ENGINE) == "supports") throw std::runtime_error("no idea");
    if (std::string_view(XRT_BAD_ENGINE) == "thrown_supports") throw 42;  // NOLINT
    return query.graph.node(query.node).op() == "Relu" ? xrt::Support::yes()
                                                       : xrt::Support::no("it is no Relu");
  }
  std::shared_ptr<const xrt::Executable> compile(
      const xrt::Function& /*function*/, const xrt::CompileOptions& /*options*/) const override {
    if (std::string_view(XRT_BAD_ENGINE) == "compile") throw std::runtime_error("out of tactics");
    if (std::string_view(XRT_BAD_ENGINE) == "thrown_compile") throw 42;  // NOLINT
    if (std::string_view(XRT_BAD_ENGINE) == "null") return nullptr;
    return std::make_shared<Result>();
  }
  std::shared_ptr<const xrt::Executable> load(const xrt::TensorView& /*blob*/,
                                              const xrt::Function& /*function*/,
                                              const xrt::CompileOptions& /*opts*/) const override {
    throw 42;  // NOLINT
  }

 private:
  xrt::EngineInfo info_ = {.name = "bad_" XRT_BAD_ENGINE,
                           .version = "1",
                           .options = {{"tactics", xrt::EngineOption::Kind::kText, "", ""},
                                       {"workspace", xrt::EngineOption::Kind::kText, "", ""}},
                           .shapes = xrt::Shapes::kAny};
};

}  // namespace

#ifndef XRT_BAD_NO_SYMBOL
extern "C" __attribute__((visibility("default"))) xrt_engine_status xrt_engine_entry(
    const xrt_engine_host* host, xrt_engine_library* library, xrt_engine_error* error) {
  const std::string_view how = XRT_BAD_ENGINE;
  const auto make = [&]() -> std::shared_ptr<const xrt::Engine> {
    if (how == "register") throw std::runtime_error("not today");
    return std::make_shared<BadEngine>();
  };
  if (how == "abi" || how == "empty") {
    library->major = XRT_ENGINE_VERSION_MAJOR + (how == "abi" ? 1 : 0);
    return 0;
  }
  return xrt::border::enter(host, library, error, make);
}
#endif
