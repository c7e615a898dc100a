// SPDX-License-Identifier: Apache-2.0
// xrt-lite-inspect FILE: what a compiled model holds.
#include <fmt/format.h>

#include <cstring>

#include "base/file.h"
#include "cli/text.h"
#include "host_model.h"
#include "internal.h"
#include "kernel_names.h"
#include "tool.h"

namespace xrt::lite {
namespace {

std::string place(const xrt_view& v, const xrt_file_tensor& t) {
  switch (t.at) {
    case XRT_AT_DATA:
      return fmt::format("weights+{}", t.offset);
    case XRT_AT_ARENA:
      return fmt::format(
          "{}arena+{}",
          t.target == 0 ? "" : std::string(v.strings + v.targets[t.target].name) + " ", t.offset);
    case XRT_AT_INPUT:
      return fmt::format("input {}", t.port);
    default:
      return fmt::format("output {}", t.port);
  }
}

void print_ports(const xrt_view& v, const char* what, std::uint32_t first, std::uint32_t count) {
  for (std::uint32_t i = first; i < first + count; ++i) {
    const xrt_file_port& p = v.ports[i];
    fmt::print("{} {}: {}{}\n", what, v.strings + p.name, to_string(static_cast<DType>(p.dtype)),
               to_string(Dims(p.dims, p.dims + p.rank)));
  }
}

// What runs after what, where there is more than one function.
void print_steps(const xrt_view& v) {
  if (v.header->steps.count < 2) return;
  for (std::uint32_t i = 0; i < v.header->steps.count; ++i) {
    const xrt_file_step& s = v.steps[i];
    if (s.kind == XRT_STEP_FUNCTION) {
      fmt::print("step {}: function {}\n", i, s.a);
    } else {
      fmt::print("step {}: transfer {} to {}, {}\n", i, place(v, v.tensors[s.a]),
                 place(v, v.tensors[s.b]),
                 cli::bytes_text(static_cast<double>(v.tensors[s.a].bytes)));
    }
  }
}

int inspect_command(int argc, char** argv) {
  CLI::App app("Shows what a model compiled by xrt-lite-compile holds", "xrt-lite-inspect");
  std::string file;
  bool ops = false, verify = false;
  app.add_option("FILE", file, "a compiled model")->required();
  app.add_flag("--ops", ops, "every op with the places of its operands");
  app.add_flag("--verify", verify, "compare the checksum of the weights, too");
  return run_tool(app, argc, argv, [&] {
    const auto mapped = MappedFile::open(file);
    xrt_view v;
    check(xrt_view_open(mapped->data(), mapped->size(), &v), file);
    const xrt_file_header& h = *v.header;
    fmt::print("{}: format {}, {}, tables {}, weights {}, arena {}\n", file, h.version,
               cli::bytes_text(static_cast<double>(h.file_bytes)),
               cli::bytes_text(static_cast<double>(h.meta_bytes)),
               cli::bytes_text(static_cast<double>(h.data_bytes)),
               cli::bytes_text(static_cast<double>(v.targets[0].arena_bytes)));
    print_ports(v, "input", 0, h.input_count);
    print_ports(v, "output", h.input_count, h.output_count);
    for (std::uint32_t i = 0; i < h.functions.count; ++i) {
      const xrt_file_function& f = v.functions[i];
      fmt::print(
          "function {}: {} ops on {}{}\n", i, f.op_count, v.strings + v.targets[f.target].name,
          f.blob_bytes == 0 ? "" : ", code " + cli::bytes_text(static_cast<double>(f.blob_bytes)));
    }
    for (std::uint32_t i = 1; i < h.targets.count; ++i) {
      if ((v.targets[i].flags & XRT_TARGET_HOST_MEMORY) != 0) continue;
      fmt::print("memory of {}: arena {}\n", v.strings + v.targets[i].name,
                 cli::bytes_text(static_cast<double>(v.targets[i].arena_bytes)));
    }
    print_steps(v);
    std::vector<std::vector<std::string>> rows = {{"op", "kernel", "operands"}};
    int counts[XRT_K_COUNT] = {};
    for (std::uint32_t i = 0; i < h.ops.count; ++i) {
      const xrt_file_op& op = v.ops[i];
      ++counts[op.kernel];
      std::string operands;
      for (std::uint32_t k = 0; k < op.operand_count; ++k) {
        operands += (k == 0 ? "" : ", ") + place(v, v.tensors[v.operands[op.operands + k]]);
      }
      rows.push_back({v.strings + op.name, kernel_name(static_cast<int>(op.kernel)), operands});
    }
    for (int k = 0; k < XRT_K_COUNT; ++k) {
      if (counts[k] > 0) fmt::print("{}: {}\n", kernel_name(k), counts[k]);
    }
    if (ops) fmt::print("{}", cli::table(rows));
    if (verify) {
      const bool good = xrt_checksum(v.bytes + h.data_offset, h.data_bytes) == h.data_checksum;
      fmt::print("weights: {}\n", good ? "checksum holds" : "checksum does not hold");
      if (!good) return static_cast<int>(cli::kFailed);
    }
    return static_cast<int>(cli::kOk);
  });
}

}  // namespace
}  // namespace xrt::lite

int main(int argc, char** argv) { return xrt::lite::inspect_command(argc, argv); }
