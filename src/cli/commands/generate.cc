// SPDX-License-Identifier: Apache-2.0
// xrt generate: text from a language model. The loop, the tokenizers and the sampling are Python's:
// openxrt.generate.
#include "cli/command.h"
#include "cli/python.h"

namespace xrt::cli {

void add_generate(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("generate", "Continue a text with a language model");
  sub->set_help_flag();  // help too is that of the Python module
  sub->prefix_command();
  sub->callback([sub, &chosen] {
    chosen = [arguments = sub->remaining()]() -> int {
      become_python_module("openxrt.generate", arguments);
    };
  });
}

}  // namespace xrt::cli
