// SPDX-License-Identifier: Apache-2.0
// Engines for tests of the runtime: they take the ops they are told to take and let the native
// engine do the work, counting what they compile.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/handles.h"
#include "xrt/program.h"

namespace xrt::testing {

// False where this build is without the engine.
inline bool is_there(const std::string& engine) {
  try {
    get_engine(engine);
    return true;
  } catch (const Error&) {
    return false;
  }
}

class PickyEngine : public Engine {
 public:
  PickyEngine(std::string name, std::set<std::string> ops) : ops_(std::move(ops)) {
    info_.name = std::move(name);
    info_.version = "1";
    info_.checks_options = true;
  }

  const EngineInfo& info() const override { return info_; }
  Support supports(const SupportQuery& query) const override {
    const std::string& op = graph_of(query.graph).node(query.node).op;
    return ops_.contains(op) ? Support::yes() : Support::no(name() + " does not take " + op);
  }
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    ++compiled;
    if (options.progress) options.progress("at it", 0.25);
    return std::make_shared<Blob>(get_engine("native")->compile(function, options));
  }
  // The blob says nothing but "ok": loading compiles natively.
  std::shared_ptr<const Executable> load(const TensorView& blob, const Function& function,
                                         const CompileOptions& options) const override {
    if (std::string_view(blob.data<const char>(), blob.bytes()) != kBlob)
      throw Error(ErrorCode::kEngine, "not a blob of " + name());
    ++loaded;
    return std::make_shared<Blob>(get_engine("native")->compile(function, options));
  }
  void set_version(std::string version) { info_.version = std::move(version); }

  mutable std::atomic<int> compiled{0};
  mutable std::atomic<int> loaded{0};

 private:
  static constexpr const char* kBlob = "ok";

  class Blob : public Executable {
   public:
    explicit Blob(std::shared_ptr<const Executable> inner) : inner_(std::move(inner)) {}
    std::unique_ptr<RunContext> create_context() const override { return inner_->create_context(); }
    void run(const RunArgs& args) const override { inner_->run(args); }
    std::optional<std::string> serialize() const override { return kBlob; }

   private:
    std::shared_ptr<const Executable> inner_;
  };

  std::set<std::string> ops_;

 protected:
  EngineInfo info_;
};

// Registers once per process and name.
inline std::shared_ptr<PickyEngine> picky(const std::string& name, std::set<std::string> ops) {
  auto engine = std::make_shared<PickyEngine>(name, std::move(ops));
  register_engine(engine);
  return engine;
}

}  // namespace xrt::testing
