// SPDX-License-Identifier: Apache-2.0
// An engine that computes Relu of float32, and does what the first element of its input says where
// that is one of the numbers below; its option `compile` has it do the same when it compiles.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/isolation/faults.h"
#include "xrt/engine.h"

namespace {

using namespace std::chrono_literals;

bool opens_memory(pid_t process) {
  return ::open(("/proc/" + std::to_string(process) + "/mem").c_str(), O_RDWR | O_CLOEXEC) >= 0;
}

bool signals(pid_t process) {
  return ::kill(process, 0) == 0 || ::syscall(SYS_tgkill, process, process, 0) == 0;
}

bool takes_descriptor(pid_t process) {
  const auto handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  return ::syscall(SYS_pidfd_getfd, handle, STDERR_FILENO, 0) >= 0;
}

void crash(int fault) {
  switch (fault) {
    case faults::kAbort:
      std::abort();
    case faults::kSegv:
      ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would exit
      ::raise(SIGSEGV);
      return;
    case faults::kExit:
      ::_exit(3);
    case faults::kHang:
      for (;;) std::this_thread::sleep_for(1s);
    case faults::kLeak:
      for (;;) {
        constexpr std::size_t kBytes = 16 << 20;
        void* lost = std::malloc(kBytes);
        if (lost != nullptr) std::memset(lost, 1, kBytes);
      }
    case faults::kThrow:
      throw std::runtime_error("it fell over");
    case faults::kNetwork:
      throw std::runtime_error(::socket(AF_INET, SOCK_STREAM, 0) < 0 ? "no network" : "a network");
    case faults::kMemory:
      throw std::runtime_error(opens_memory(::getppid()) ? "its memory" : "no memory of it");
    case faults::kSignal:
      throw std::runtime_error(signals(::getppid()) ? "a signal" : "no signal");
    case faults::kDescriptor:
      throw std::runtime_error(takes_descriptor(::getppid()) ? "a descriptor" : "no descriptor");
    default:
      return;
  }
}

class Relu final : public xrt::Executable {
 public:
  void run(const xrt::RunArgs& args) const override {
    const xrt::TensorView in = args.input(0);
    const auto* from = in.data<float>();
    const int fault = in.count() > 0 ? static_cast<int>(from[0]) : 0;
    if (fault == faults::kShape) {
      const std::int64_t wrong[] = {7, 7};
      args.allocate_output(0, xrt::DType::kFloat32, wrong);
      return;
    }
    while (fault == faults::kPatient && !args.cancelled()) std::this_thread::sleep_for(1ms);
    if (fault == faults::kPatient) throw std::runtime_error("it was told to stop");
    crash(fault);
    const std::vector<std::int64_t> dims(in.dims().begin(), in.dims().end());
    auto* to = args.output(0).defined()
                   ? const_cast<float*>(args.output(0).data<float>())
                   : static_cast<float*>(args.allocate_output(0, xrt::DType::kFloat32, dims));
    for (std::int64_t i = 0; i < in.count(); ++i) to[i] = std::max(from[i], 0.0F);
  }
  std::optional<std::string> serialize() const override { return "relu"; }
};

class Faulty final : public xrt::Engine {
 public:
  Faulty() {
    if (const char* how = std::getenv("XRT_TEST_FAULT_AT_LOAD")) crash(std::atoi(how));
  }
  const xrt::EngineInfo& info() const override { return info_; }
  xrt::Support supports(const xrt::SupportQuery& query) const override {
    return query.graph.node(query.node).op() == "Relu" ? xrt::Support::yes()
                                                       : xrt::Support::no("it is no Relu");
  }
  std::shared_ptr<const xrt::Executable> compile(
      const xrt::Function& /*function*/, const xrt::CompileOptions& options) const override {
    const auto how = options.engine_options.find("compile");
    if (how != options.engine_options.end()) crash(std::stoi(how->second));
    return std::make_shared<Relu>();
  }
  std::shared_ptr<const xrt::Executable> load(const xrt::TensorView& blob,
                                              const xrt::Function& /*function*/,
                                              const xrt::CompileOptions& options) const override {
    if (std::string_view(blob.data<char>(), blob.bytes()) != "relu") {
      throw std::runtime_error("it is no blob");
    }
    const auto how = options.engine_options.find("load");
    if (how != options.engine_options.end()) crash(std::stoi(how->second));
    return std::make_shared<Relu>();
  }

 private:
  xrt::EngineInfo info_ = {.name = "faulty",
                           .version = "1",
                           .options = {{"compile", xrt::EngineOption::Kind::kInt, "0", "fault"},
                                       {"load", xrt::EngineOption::Kind::kInt, "0", "fault"}},
                           .shapes = xrt::Shapes::kAny};
};

}  // namespace

XRT_ENGINE(Faulty)
