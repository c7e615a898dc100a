// SPDX-License-Identifier: Apache-2.0
// xrt serve: a folder of models behind a server of the Open Inference Protocol. The servers are
// reached from Python: openxrt.serve.
#include "cli/command.h"
#include "cli/python.h"

namespace xrt::cli {

void add_serve(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("serve", "Serve a folder of models through Triton or KServe");
  sub->set_help_flag();  // help too is that of the Python module
  sub->prefix_command();
  sub->callback([sub, &chosen] {
    chosen = [arguments = sub->remaining()]() -> int {
      become_python_module("openxrt.serve", arguments);
    };
  });
}

}  // namespace xrt::cli
