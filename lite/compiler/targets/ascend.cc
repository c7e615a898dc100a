// SPDX-License-Identifier: Apache-2.0
// Huawei's Ascend: each function becomes an ONNX model that `atc` of the CANN toolkit compiles; the
// .om file goes into ours (lite/runtime/drivers/ascend). Nothing of this has been tried on
// hardware.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "exec/native_evaluator.h"
#include "passes/pass_manager.h"
#include "raise.h"
#include "targets/target.h"
#include "xrt/error.h"
#include "xrt/onnx.h"

extern char** environ;

namespace xrt::lite {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "xrt-atc-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorCode::kIo, fmt::format("cannot make a folder like {}", name));
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

fs::path find_atc() {
  const char* home = std::getenv("ASCEND_TOOLKIT_HOME");
  if (home == nullptr || *home == '\0') {
    throw Error(ErrorCode::kNotFound,
                "target 'ascend' compiles with atc of the CANN toolkit: set ASCEND_TOOLKIT_HOME to "
                "the toolkit's folder (its set_env.sh does)");
  }
  const fs::path atc = fs::path(home) / "bin" / "atc";
  if (access(atc.c_str(), X_OK) != 0) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("ASCEND_TOOLKIT_HOME is {}, but {} cannot be run", home, atc.string()));
  }
  return atc;
}

// Output of both streams goes to `log`.
int run(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = 0;
  const int failed = posix_spawn(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Ascend : public Target {
 public:
  std::string name() const override { return "ascend"; }
  bool host_memory() const override { return false; }
  bool whole_functions() const override { return true; }
  std::optional<std::string> refuses(xrt_kernel_id kernel, const void* params) const override {
    return cannot_raise(kernel, params);
  }
  Packing pack_conv(xrt_kernel_id, const xrt_k_conv&) const override { return {1, 1}; }
  Packing pack_gemm(xrt_kernel_id, const xrt_k_gemm&) const override { return {1, 1}; }

  std::string compile_model(const Graph& raised) const override {
    const fs::path atc = find_atc();
    Graph graph = raised;
    run_passes(graph, {.evaluate = native_evaluator(), .dump_dir = {}});
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "model.onnx", log = folder.path() / "log";
    export_onnx_file(graph, model);
    const char* soc = std::getenv("XRT_ASCEND_SOC");
    const int code = run({atc.string(), "--framework=5", "--model=" + model.string(),
                          "--output=" + (folder.path() / "model").string(),
                          fmt::format("--soc_version={}", soc != nullptr ? soc : "Ascend310P3"),
                          "--precision_mode=allow_fp32_to_fp16"},
                         log);
    const fs::path result = folder.path() / "model.om";
    if (code != 0 || !fs::exists(result)) {
      const std::string text = fs::exists(log) ? read_file(log) : "";
      throw Error(ErrorCode::kEngine,
                  fmt::format("{} ended with code {}{}:\n{}", atc.string(), code,
                              code == 0 ? " and wrote no model" : "",
                              text.substr(text.size() - std::min<std::size_t>(text.size(), 4000))));
    }
    return read_file(result);
  }
};

}  // namespace

const Target& ascend_target() {
  static const Ascend target;
  return target;
}

}  // namespace xrt::lite
