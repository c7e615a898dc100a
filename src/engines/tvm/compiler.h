// SPDX-License-Identifier: Apache-2.0
// TVM's compiler: its Python package in a process of its own (compiler.py), so that what it leaks,
// prints or crashes on stays there. One process serves one compilation after another and ends when
// it has been idle for a minute.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace xrt::tvm_engine {

struct CompileRequest {
  std::string function;  // for messages
  std::string model;     // bytes of an ONNX model
  std::string target;    // a kind ("llvm", "cuda") or a JSON object, as tvm.target.Target takes it
  int threads = 1;
  int opt_level = 3;
  int trials = 0;                 // of tuning; 0: none
  int time_budget_seconds = 600;  // of tuning
  int timeout_seconds = 900;      // of a compilation without progress
  std::string records;            // folder of tuning records; needed where trials > 0
  std::string code = "[]";        // of users' ops, see user_code.h
  std::function<void(std::string_view what, double part)> progress;
};

class Compiler {
 public:
  Compiler();
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  // The bytes of a shared library. kEngine naming the function, the cause and the end of what the
  // process wrote where it fails, dies or makes no progress for too long.
  std::string compile(const CompileRequest& request);

  // The interpreter that runs the compiler: $XRT_PYTHON, else the one of the build, else python3.
  static std::string python();

 private:
  class Process;
  std::mutex mutex_;
  std::unique_ptr<Process> process_;
};

}  // namespace xrt::tvm_engine
