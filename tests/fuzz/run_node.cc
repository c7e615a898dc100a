// SPDX-License-Identifier: Apache-2.0
// A node of any op with any operands and attributes, valid and nearly valid, is refused with an
// xrt::Error or runs on the native engine, whatever the tensors hold. An input chooses the op,
// types, shapes, attributes and elements; operands are constants, inputs of fixed or of open sizes.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ops/signature.h"
#include "xrt/error.h"
#include "xrt/graph.h"
#include "xrt/program.h"

namespace {

using xrt::DType;

constexpr std::int64_t kMaxCount = 4096;
constexpr auto kIntegers = std::to_array<std::int64_t>(
    {0, 1, -1, 2, 3, 4, 7, 255, -128, 65536, 1 << 30, INT32_MAX, INT32_MIN, std::int64_t{1} << 40,
     std::int64_t{1} << 62, INT64_MAX, INT64_MIN});
constexpr auto kFloats = std::to_array<float>(
    {0.0F, -0.0F, 1.0F, -1.0F, 0.5F, 1e-45F, 1e-30F, 1e10F, 3.4e38F, -3.4e38F,
     std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
     -std::numeric_limits<float>::infinity()});
constexpr const char* kTexts[] = {"",        "a",       "linear",        "constant",
                                  "VALID",   "reflect", "SAME_UPPER",    "ij,jk->ik",
                                  "nearest", "cubic",   "i...->...i",    "(a*)*b",
                                  "forward", "max",     "bidirectional", "\xff",
                                  "12",      "NaN",     "none",          "MEAN"};

const std::vector<xrt::OpSignature>& ops() {
  static const std::vector<xrt::OpSignature> all = [] {
    std::vector<xrt::OpSignature> found;
    for (const char* domain : {"", "ai.onnx.ml", "ai.onnx.preview.training", "xrt"}) {
      for (xrt::OpSignature& op : xrt::op_signatures(domain)) {
        if (!op.has_graphs) found.push_back(std::move(op));
      }
    }
    return found;
  }();
  return all;
}

class Maker {
 public:
  Maker(const std::uint8_t* data, std::size_t size) : from_(data, size) {
    const int rank = from_.ConsumeIntegralInRange(0, 9);
    for (int i = 0; i < rank; ++i) shape_.push_back(size_of_axis());
  }

  // Compiles and runs the node; a second time with other elements.
  void run() {
    const xrt::OpSignature& op =
        ops()[from_.ConsumeIntegralInRange<std::size_t>(0, ops().size() - 1)];
    std::vector<xrt::ValueId> operands;
    for (const xrt::OpSignature::Operand& formal : op.inputs) {
      const int count = formal.variadic ? from_.ConsumeIntegralInRange(0, 5) : 1;
      for (int i = 0; i < count; ++i) {
        const bool left_out = formal.optional && from_.ConsumeBool();
        operands.push_back(left_out ? xrt::ValueId{} : operand(formal));
      }
    }
    while (!operands.empty() && !operands.back().valid()) operands.pop_back();
    const int most = std::clamp(op.max_outputs, 1, 4);
    const int least = std::clamp(op.min_outputs, 1, most);
    const int count = from_.ConsumeIntegralInRange(least, most);
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back("y" + std::to_string(i));
    const xrt::NodeId node =
        graph_.add_node(op.domain, op.name, operands, names, attributes(op), "node");
    if (!op.domain.empty()) graph_.opsets()[op.domain] = op.domain == "ai.onnx.ml" ? 5 : 1;
    for (const xrt::ValueId v : graph_.node(node).outputs) graph_.add_output(v);

    xrt::ProgramOptions options;
    options.engines = {"native"};
    options.num_threads = 1;
    options.max_memory_bytes = std::int64_t{1} << 28;
    options.deadline_s = 5;
    const auto program = xrt::Program::compile(std::move(graph_), options);
    std::vector<xrt::Data> outputs;
    program->run(inputs_, outputs);
    for (xrt::Data& input : inputs_) {
      if (input.is_tensor()) input = tensor(input.tensor().dtype(), input.tensor().dims());
    }
    outputs.clear();
    program->run(inputs_, outputs);
  }

 private:
  std::int64_t size_of_axis() {
    const int size = from_.ConsumeIntegralInRange(0, 9);
    return size == 9 ? from_.ConsumeIntegralInRange(0, 65) : size;
  }

  std::int64_t integer() {
    const auto way = from_.ConsumeIntegral<std::uint8_t>();
    if (way < 160) return static_cast<std::int64_t>(way % 13) - 3;
    if (way < 230) return kIntegers[way % kIntegers.size()];
    return from_.ConsumeIntegral<std::int64_t>();
  }

  float number() {
    const auto way = from_.ConsumeIntegral<std::uint8_t>();
    if (way < 128) return (static_cast<float>(way) - 64) / 16;
    if (way < 230) return kFloats[way % kFloats.size()];
    return std::bit_cast<float>(from_.ConsumeIntegral<std::uint32_t>());
  }

  // That of the other operands, or one that has to do with it.
  xrt::Dims dims() {
    xrt::Dims made = shape_;
    switch (from_.ConsumeIntegralInRange(0, 9)) {
      case 0:
      case 1:
        made = {size_of_axis()};
        break;
      case 2:
        made.clear();
        break;
      case 3:
        for (std::int64_t& size : made) size = from_.ConsumeBool() ? 1 : size;
        break;
      case 4:
        if (!made.empty()) made.erase(made.begin());
        break;
      case 5:
        made.resize(from_.ConsumeIntegralInRange<std::size_t>(0, 8), 1);
        for (std::int64_t& size : made) size = size_of_axis();
        break;
      case 6:
        if (made.size() > 1) made[0] = made[1];
        break;
      default:
        break;
    }
    std::int64_t count = 1;
    for (std::int64_t& size : made) {
      if (size > 0 && count * size > kMaxCount) size = 1;
      count *= std::max<std::int64_t>(size, 1);
    }
    return made;
  }

  xrt::Tensor tensor(DType dtype, const xrt::Dims& shape) {
    xrt::Tensor made = xrt::Tensor::allocate(dtype, shape);
    if (dtype == DType::kString) {
      for (std::int64_t i = 0; i < made.count(); ++i) {
        made.strings()[i] = from_.PickValueInArray(kTexts);
      }
      return made;
    }
    auto* bytes = made.data<std::uint8_t>();
    const auto width = static_cast<std::size_t>(xrt::bit_width(dtype) / 8);
    // Elements that were chosen, again and again.
    std::array<std::uint8_t, 8 * 16> chosen{};
    const std::size_t kinds = from_.ConsumeIntegralInRange<std::size_t>(1, 8);
    for (std::size_t k = 0; k < kinds; ++k) {
      std::array<std::uint8_t, 16> element{};
      const auto put = [&](auto value) { std::memcpy(element.data(), &value, sizeof(value)); };
      if (dtype == DType::kFloat32) {
        put(number());
      } else if (dtype == DType::kFloat64) {
        put(static_cast<double>(number()));
      } else if (dtype == DType::kBFloat16) {
        put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number()) >> 16));
      } else if (dtype == DType::kBool) {
        put(static_cast<std::uint8_t>(from_.ConsumeBool()));
      } else if (xrt::is_integer(dtype)) {
        put(integer());
      } else {
        put(from_.ConsumeIntegral<std::uint64_t>());
        if (width == 16) element[8] = from_.ConsumeIntegral<std::uint8_t>();
      }
      std::memcpy(chosen.data() + k * 16, element.data(), 16);
    }
    const std::size_t step = std::max<std::size_t>(width, 1);
    for (std::size_t at = 0, i = 0; at + step <= made.bytes(); at += step, ++i) {
      std::memcpy(bytes + at, chosen.data() + i % kinds * 16, step);
    }
    return made;
  }

  xrt::Data value(const xrt::Type& type) {
    if (type.is_tensor()) return tensor(type.dtype, dims());
    if (type.kind == xrt::Type::Kind::kOptional) {
      return from_.ConsumeBool() ? xrt::Data() : value(*type.element);
    }
    std::vector<xrt::Data> items;
    const int count = from_.ConsumeIntegralInRange(0, 3);
    for (int i = 0; i < count; ++i) items.push_back(value(*type.element));
    const xrt::Type* inner = type.element.get();
    while (inner->element) inner = inner->element.get();
    return xrt::Data::sequence(inner->dtype, std::move(items));
  }

  xrt::ValueId operand(const xrt::OpSignature::Operand& formal) {
    if (formal.types.empty()) return {};
    const auto choice = from_.ConsumeIntegral<std::uint8_t>();
    const auto known = variables_.find(formal.type_variable);
    const xrt::Type type = known != variables_.end() && choice < 250
                               ? known->second
                               : formal.types[choice % formal.types.size()];
    variables_.insert_or_assign(formal.type_variable, type);
    const std::string name = "x" + std::to_string(inputs_.size());
    if (!type.is_tensor()) {
      inputs_.push_back(value(type));
      return graph_.add_input(name, type);
    }
    xrt::Tensor made = tensor(type.dtype, dims());
    const int way = from_.ConsumeIntegralInRange(0, 5);
    if (way < 2) return graph_.add_constant("", std::move(made));
    xrt::Type declared = xrt::Type::tensor(type.dtype, made.dims());
    if (way == 4) {
      for (xrt::Dim& dim : *declared.shape) dim = xrt::Dim();
    }
    if (way == 5) declared = xrt::Type::tensor(type.dtype);
    inputs_.emplace_back(std::move(made));
    return graph_.add_input(name, declared);
  }

  xrt::Attribute attribute(const xrt::Attribute& like) {
    xrt::Attribute made = like;
    const auto list = [&](auto& values, auto&& make) {
      values.clear();
      const int count = from_.ConsumeIntegralInRange(0, 8);
      for (int i = 0; i < count; ++i) values.push_back(make());
    };
    const auto text = [&] {
      return from_.ConsumeIntegralInRange(0, 9) == 0 ? from_.ConsumeRandomLengthString(20)
                                                     : std::string(from_.PickValueInArray(kTexts));
    };
    if (auto* i = std::get_if<std::int64_t>(&made)) *i = integer();
    if (auto* f = std::get_if<float>(&made)) *f = number();
    if (auto* s = std::get_if<std::string>(&made)) {
      if (s->empty() || from_.ConsumeIntegralInRange(0, 3) == 0) *s = text();
    }
    if (auto* ints = std::get_if<std::vector<std::int64_t>>(&made)) {
      list(*ints, [&] { return integer(); });
    }
    if (auto* floats = std::get_if<std::vector<float>>(&made)) {
      list(*floats, [&] { return number(); });
    }
    if (auto* texts = std::get_if<std::vector<std::string>>(&made)) list(*texts, text);
    if (std::holds_alternative<xrt::Tensor>(made)) {
      constexpr DType kTypes[] = {DType::kFloat32, DType::kInt64, DType::kString,
                                  DType::kBool,    DType::kInt32, DType::kFloat64};
      made = tensor(from_.PickValueInArray(kTypes), dims());
    }
    return made;
  }

  xrt::Attributes attributes(const xrt::OpSignature& op) {
    xrt::Attributes made;
    for (const xrt::OpSignature::NamedAttribute& one : op.attributes) {
      const int way = from_.ConsumeIntegralInRange(0, 7);
      if (way > (one.required ? 6 : 3)) continue;
      made.emplace(one.name, attribute(one.value));
    }
    return made;
  }

  FuzzedDataProvider from_;
  xrt::Graph graph_{"fuzz"};
  xrt::Dims shape_;
  std::map<std::string, xrt::Type> variables_;
  std::vector<xrt::Data> inputs_;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  setenv("XRT_CACHE_DIR", "", 1);
  setenv("XRT_LOG", "off", 1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    Maker(data, size).run();
  } catch (const xrt::Error& error) {
    if (error.code() != xrt::ErrorCode::kInternal) return 0;
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}
