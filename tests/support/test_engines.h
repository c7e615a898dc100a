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

#include "xrt/program.h"

namespace xrt::testing {

class PickyEngine : public Engine {
 public:
  PickyEngine(std::string name, std::set<std::string> ops)
      : name_(std::move(name)), ops_(std::move(ops)) {}

  std::string name() const override { return name_; }
  std::string version() const override { return version_; }
  Support supports(const SupportQuery& query) const override {
    const std::string& op = query.graph.node(query.node).op;
    return ops_.contains(op) ? Support::yes() : Support::no(name_ + " does not take " + op);
  }
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    ++compiled;
    if (options.progress) options.progress("at it", 0.25);
    return std::make_shared<Blob>(get_engine("native")->compile(function, options));
  }
  // The blob says nothing but "ok": loading compiles natively.
  std::shared_ptr<const Executable> load(const Tensor& blob, const Function& function,
                                         const CompileOptions& options) const override {
    if (std::string_view(static_cast<const char*>(blob.raw()), blob.bytes()) != kBlob)
      throw Error(ErrorCode::kEngine, "not a blob of " + name_);
    ++loaded;
    return std::make_shared<Blob>(get_engine("native")->compile(function, options));
  }
  void set_version(std::string version) { version_ = std::move(version); }

  mutable std::atomic<int> compiled{0};
  mutable std::atomic<int> loaded{0};

 private:
  static constexpr const char* kBlob = "ok";

  class Blob : public Executable {
   public:
    explicit Blob(std::shared_ptr<const Executable> inner) : inner_(std::move(inner)) {}
    std::unique_ptr<RunContext> create_context() const override { return inner_->create_context(); }
    void run(RunContext* context, std::span<const Data> inputs, std::span<Data> outputs,
             const RunOptions& options) const override {
      inner_->run(context, inputs, outputs, options);
    }
    std::optional<std::string> serialize() const override { return kBlob; }

   private:
    std::shared_ptr<const Executable> inner_;
  };

  std::string name_;
  std::set<std::string> ops_;
  std::string version_ = "1";
};

// Registers once per process and name.
inline std::shared_ptr<PickyEngine> picky(const std::string& name, std::set<std::string> ops) {
  auto engine = std::make_shared<PickyEngine>(name, std::move(ops));
  register_engine(engine);
  return engine;
}

}  // namespace xrt::testing
