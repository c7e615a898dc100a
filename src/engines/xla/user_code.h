// SPDX-License-Identifier: Apache-2.0
// StableHLO that users bring for an op of theirs (xrt/op.h: OpDefinition::code), made fit to stand
// beside other functions in one module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xrt::xla {

struct UserCode {
  std::string functions;                     // all func.func of the text, private, renamed
  std::string main;                          // what its @main is called now
  std::vector<std::string> inputs, outputs;  // of @main: "tensor<2x3xf32>"
};

// `text`: a module as `jax.jit(f).lower(...).as_text()` gives it, or functions without one. Names
// of its functions are preceded by `prefix`. Throws Refusal where there is no @main, or where the
// text is not made of functions; what is inside them XLA reads.
UserCode read_user_code(std::string_view text, std::string_view prefix);

}  // namespace xrt::xla
