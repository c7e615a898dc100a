// SPDX-License-Identifier: Apache-2.0
// C sources instead of a file: parameters and weights as constants, kernels called by name, so that
// the linker takes only those that the model uses. No loader, no core.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <iterator>
#include <set>

#include "module.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace {

constexpr const char* kKernelFunctions[XRT_K_COUNT] = {
    "",     "conv_f32", "conv_q8", "dwconv_f32", "dwconv_q8", "gemm_f32", "gemm_q8", "pool", "ew",
    "copy", "fill",     "reduce",  "softmax",    "norm",      "gather",   "resize",  "arg",  ""};

std::string comment_text(std::string text) {
  for (char& c : text) {
    if (std::isprint(static_cast<unsigned char>(c)) == 0 || c == '*' || c == '\\') c = ' ';
  }
  return text;
}

std::string identifier(const std::string& text) {
  std::string result;
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) result.push_back('m');
  for (const char c : text) {
    result.push_back(std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_');
  }
  return result;
}

void append_words(std::string& to, const std::uint32_t* words, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    fmt::format_to(std::back_inserter(to), "{}0x{:x}u,", i % 10 == 0 ? "\n    " : " ", words[i]);
  }
}

void append_ports(std::string& to, const std::string& name, const char* what,
                  const std::vector<ModulePort>& ports) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (std::size_t i = 0; i < ports.size(); ++i) {
    fmt::format_to(std::back_inserter(to), "#define {}_{}_{}_BYTES {}u /* {}: {}{} */\n", upper,
                   what, i, byte_count(ports[i].dtype, ports[i].dims), comment_text(ports[i].name),
                   to_string(ports[i].dtype), to_string(ports[i].dims));
  }
}

}  // namespace

CSources write_c(const Module& m, const std::string& model_name) {
  (void)write_file(m);  // throws where kernels would be given what they do not check
  const std::string name = identifier(model_name);
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  CSources out;
  out.header = fmt::format(
      "/* Made by xrt-lite-compile --emit=c. */\n#ifndef {0}_H_\n#define {0}_H_\n\n"
      "#include \"xrt_lite.h\"\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n"
      "#define {0}_ARENA_BYTES {1}u\n",
      upper, std::max<std::size_t>(m.arena_bytes, 64));
  append_ports(out.header, name, "INPUT", m.inputs);
  append_ports(out.header, name, "OUTPUT", m.outputs);
  fmt::format_to(
      std::back_inserter(out.header),
      "\n/* `arena` is aligned to 64 bytes and free between runs; threads with arenas of "
      "their own may\n * run at once. */\nxrt_lite_status {}_run(const void* const* "
      "inputs, void* const* outputs, void* arena);\n\n#ifdef __cplusplus\n}}\n#endif\n#endif\n",
      name);

  std::string& c = out.source;
  c = fmt::format(
      "/* Made by xrt-lite-compile --emit=c: C11, and C++11. */\n#include \"{}.h\"\n\n"
      "#include <stdalign.h>\n\n#include \"kernel.h\"\n\n"
      "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n",
      name);
  std::set<std::string> used;
  std::vector<std::string> functions;
  for (const ModuleOp& op : m.ops) {
    const Target& target = *m.targets[static_cast<std::size_t>(op.target)];
    const std::string prefix = target.c_prefix(op.kernel);
    if (prefix.empty()) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("op '{}' is for target '{}', whose kernels C sources cannot call: "
                              "--targets=generic or cortex-m",
                              op.name, target.name()));
    }
    functions.push_back(prefix + kKernelFunctions[op.kernel]);
    used.insert(functions.back());
  }
  for (const std::string& function : used) {
    c += fmt::format("xrt_lite_status {}(const xrt_kernel_call* call);\n", function);
  }
  c += "#ifdef __cplusplus\n}\n#endif\n";
  // Constants, one after the other.
  std::string data;
  std::vector<std::size_t> place;
  for (const std::string& bytes : m.constants) {
    data.resize((data.size() + 15) / 16 * 16);
    place.push_back(data.size());
    data += bytes;
  }
  data.resize((data.size() + 16) / 16 * 16);
  std::vector<std::uint32_t> words(data.size() / 4);
  std::memcpy(words.data(), data.data(), data.size());
  c += "\nalignas(64) static const uint32_t weights[] = {";
  append_words(c, words.data(), words.size());
  c += "};\n\nstatic const uint32_t parameters[] = {";
  for (const ModuleOp& op : m.ops) append_words(c, op.params.data(), op.params.size());
  c +=
      "};\n\n/* Where an operand lies: 0 weights, 1 arena, 2 inputs, 3 outputs; which; offset. */\n"
      "static const struct {\n  uint8_t at, port;\n  uint32_t offset;\n} operands[] = {\n";
  for (const ModuleOp& op : m.ops) {
    c += "   ";
    for (const Operand& o : op.operands) {
      if (o.at == Operand::At::kConstant) {
        c += fmt::format(" {{0, 0, {}u}},", place[static_cast<std::size_t>(o.index)] + o.offset);
        continue;
      }
      const Storage& s = m.storages[static_cast<std::size_t>(o.index)];
      const int at = s.input >= 0 ? 2 : s.output >= 0 ? 3 : 1;
      c += fmt::format(" {{{}, {}, {}u}},", at, std::max({s.input, s.output, 0}),
                       s.offset + o.offset);
    }
    c += "\n";
  }
  c += "};\n\nstatic const struct {\n  xrt_kernel kernel;\n  uint32_t parameters;\n"
       "  uint16_t operands, count;\n} ops[] = {\n";
  std::size_t params = 0, operand = 0;
  for (std::size_t i = 0; i < m.ops.size(); ++i) {
    const ModuleOp& op = m.ops[i];
    c += fmt::format("    {{{}, {}u, {}u, {}u}}, /* {} */\n", functions[i], params, operand,
                     op.operands.size(), comment_text(op.name));
    params += op.params.size();
    operand += op.operands.size();
  }
  if (operand > UINT16_MAX) {
    throw Error(ErrorCode::kUnsupported, "more than 65535 operands: write a file instead");
  }
  fmt::format_to(
      std::back_inserter(c),
      "}};\n\nxrt_lite_status {}_run(const void* const* inputs, void* const* outputs, void* arena) "
      "{{\n"
      "  void* addresses[{}];\n"
      "  xrt_kernel_call call = {{NULL, addresses, NULL, NULL}};\n"
      "  for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); ++i) {{\n"
      "    for (uint32_t k = 0; k < ops[i].count; ++k) {{\n"
      "      const uint32_t o = ops[i].operands + k;\n"
      "      uintptr_t base = (uintptr_t)weights;\n"
      "      if (operands[o].at == 1) base = (uintptr_t)arena;\n"
      "      if (operands[o].at == 2) base = (uintptr_t)inputs[operands[o].port];\n"
      "      if (operands[o].at == 3) base = (uintptr_t)outputs[operands[o].port];\n"
      "      addresses[k] = (void*)(base + operands[o].offset);\n"
      "    }}\n"
      "    call.params = parameters + ops[i].parameters;\n"
      "    const xrt_lite_status status = ops[i].kernel(&call);\n"
      "    if (status != XRT_LITE_OK) return status;\n"
      "  }}\n"
      "  return XRT_LITE_OK;\n}}\n",
      name, XRT_MAX_OPERANDS);
  return out;
}

}  // namespace xrt::lite
