// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/kernel_choice.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "base/log.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace {

// The kernels, and behind them the ways of the library.
class KernelChoice final : public Computation {
 public:
  KernelChoice(const LibraryOptions& options, const Step& step, Launch launch,
               std::string_view saved)
      : kernel_(std::get<KernelStep>(step.work)), launch_(std::move(launch)) {
    if (saved.starts_with(kOfLibrary)) {
      if (!kernel_.library) refuse();
      library_ = make_integer_convolution(options, *kernel_.library, saved.substr(1));
      choose(kernel_count());
      return;
    }
    if (!saved.empty()) {
      std::size_t way = 0;
      const auto parsed = std::from_chars(saved.data(), saved.data() + saved.size(), way);
      if (parsed.ec != std::errc() || way >= kernel_count()) refuse();
      choose(way);
      return;
    }
    if (!kernel_.library) return;
    try {
      library_ = make_integer_convolution(options, *kernel_.library, {});
      choose(kernel_count());
    } catch (const Error& error) {  // there are the kernels
      if (error.code() != ErrorCode::kUnsupported) throw;
      log_debug(fmt::format("cuda: {}: {}", step.what, error.what()));
    }
  }

  std::size_t way_count() const override {
    return kernel_count() + (library_ ? library_->way_count() : 0);
  }
  using Computation::workspace_bytes;
  std::size_t workspace_bytes(std::size_t way) const override {
    return way < kernel_count() ? 0 : library_->workspace_bytes(way - kernel_count());
  }
  void choose(std::size_t way) override {
    Computation::choose(way);
    if (way >= kernel_count()) library_->choose(way - kernel_count());
  }
  bool is_generated() const override { return chosen() < kernel_count(); }
  void queue(const Addresses& addresses, void* workspace, void* stream) const override {
    if (!is_generated()) {
      library_->queue(addresses, workspace, stream);
    } else if (chosen() == 0) {
      launch_(kernel_.kernel, kernel_.grid, addresses, stream);
    } else {
      const KernelStep::Way& other = kernel_.others[chosen() - 1];
      launch_(other.kernel, other.grid, addresses, stream);
    }
  }
  std::string save() const override {
    return is_generated() ? std::to_string(chosen()) : kOfLibrary + library_->save();
  }

 private:
  static constexpr char kOfLibrary = 'l';

  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::kEngine, "cuda: a saved choice of kernels is none of this step");
  }
  std::size_t kernel_count() const { return kernel_.others.size() + 1; }

  const KernelStep& kernel_;
  Launch launch_;
  std::unique_ptr<Computation> library_;
};

}  // namespace

std::unique_ptr<Computation> make_kernel_choice(const LibraryOptions& options, const Step& step,
                                                Launch launch, std::string_view saved) {
  return std::make_unique<KernelChoice>(options, step, std::move(launch), saved);
}

}  // namespace xrt::cuda
