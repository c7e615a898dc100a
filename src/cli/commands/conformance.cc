// SPDX-License-Identifier: Apache-2.0
// xrt conformance: does an engine keep what the contract promises? The checks are Python, because
// ONNX's test data come with a Python package: openxrt.conformance.
#include "cli/command.h"
#include "cli/python.h"

namespace xrt::cli {

void add_conformance(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand(
      "conformance", "Check that an engine, of the tree or not, keeps the contract");
  sub->set_help_flag();  // help too is that of the Python module
  sub->prefix_command();
  sub->callback([sub, &chosen] {
    chosen = [arguments = sub->remaining()]() -> int {
      become_python_module("openxrt.conformance", arguments);
    };
  });
}

}  // namespace xrt::cli
