// SPDX-License-Identifier: Apache-2.0
// Cast, CastLike and BitCast between all element types, and Clip.
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/work_scope.h"
#include "engines/native/kernels/common/broadcast.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

constexpr std::int64_t kBlock = 512;

double parse_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  while (*end == ' ') ++end;
  if (end == text.c_str() || *end != '\0') fail("'" + text + "' is not a number");
  return value;
}

std::int64_t parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto result = std::from_chars(begin, end, value);
  if (result.ec == std::errc() && result.ptr == end) return value;
  const double number = parse_number(text);
  constexpr double kEnd = 9223372036854775808.0;  // 2^63
  if (!(number >= -kEnd && number < kEnd)) fail("'" + text + "' is outside the range of integers");
  return static_cast<std::int64_t>(number);
}

// The shortest decimal that reads back as the same number of that type.
template <typename T>
std::string number_text(T value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, result.ptr};
}

// To write a number, or to read one.
constexpr std::int64_t kTextWork = 32;

void to_strings(const Tensor& x, Tensor& y) {
  std::string* out = y.strings();
  TimeCheck time;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    time.spend(kTextWork);
    if (x.dtype() == DType::kBool) {
      out[i] = x.data<std::uint8_t>()[i] != 0 ? "True" : "False";
    } else if (x.dtype() == DType::kFloat64) {
      out[i] = number_text(x.data<double>()[i]);
    } else if (x.dtype() == DType::kUInt64) {
      out[i] = std::to_string(x.data<std::uint64_t>()[i]);
    } else if (is_floating(x.dtype())) {
      float value = 0;
      load_float(x.dtype(), x.raw(), i, 1, &value);
      out[i] = number_text(value);
    } else {
      std::int64_t value = 0;
      load_int64(x.dtype(), x.raw(), i, 1, &value);
      out[i] = std::to_string(value);
    }
  }
}

void from_strings(const Tensor& x, Tensor& y, bool saturate, Rounding rounding) {
  TimeCheck time;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    time.spend(kTextWork);
    const std::string& text = x.strings()[i];
    if (is_floating(y.dtype())) {
      const double value = parse_number(text);
      store_double(y.dtype(), &value, 1, y.raw(), i, saturate, rounding);
    } else if (y.dtype() == DType::kBool) {
      y.data<std::uint8_t>()[i] = text == "True" || text == "true" ||
                                  (text != "False" && text != "false" && parse_number(text) != 0);
    } else {
      const std::int64_t value = parse_integer(text);
      store_int64(y.dtype(), &value, 1, y.raw(), i);
    }
  }
}

// The common pairs of whole-byte integers and float32, without a detour.
template <typename From>
bool convert_from(const From* x, DType to, void* target, std::int64_t n) {
  switch (to) {
    case DType::kFloat32:
      for (std::int64_t i = 0; i < n; ++i)
        static_cast<float*>(target)[i] = static_cast<float>(x[i]);
      return true;
    case DType::kInt64:
      if constexpr (std::is_floating_point_v<From>) return false;
      for (std::int64_t i = 0; i < n; ++i) {
        static_cast<std::int64_t*>(target)[i] = static_cast<std::int64_t>(x[i]);
      }
      return true;
    case DType::kInt32:
      if constexpr (std::is_floating_point_v<From>) return false;
      for (std::int64_t i = 0; i < n; ++i) {
        static_cast<std::int32_t*>(target)[i] = static_cast<std::int32_t>(x[i]);
      }
      return true;
    case DType::kBool:
      for (std::int64_t i = 0; i < n; ++i) static_cast<std::uint8_t*>(target)[i] = x[i] != From{0};
      return true;
    default:
      return false;
  }
}

bool convert_directly(const Tensor& x, std::int64_t begin, std::int64_t n, Tensor& y) {
  if (bit_width(y.dtype()) < 8) return false;
  auto* target = y.data<std::byte>() + begin * (bit_width(y.dtype()) / 8);
  switch (x.dtype()) {
    case DType::kFloat32:
      if (y.dtype() == DType::kFloat16 || y.dtype() == DType::kBFloat16) {
        store_float(y.dtype(), x.data<float>() + begin, n, target, 0);
        return true;
      }
      return convert_from(x.data<float>() + begin, y.dtype(), target, n);
    case DType::kFloat16:
    case DType::kBFloat16:
      if (y.dtype() != DType::kFloat32) return false;
      load_float(x.dtype(), x.raw(), begin, n, reinterpret_cast<float*>(target));
      return true;
    case DType::kInt64:
      return convert_from(x.data<std::int64_t>() + begin, y.dtype(), target, n);
    case DType::kInt32:
      return convert_from(x.data<std::int32_t>() + begin, y.dtype(), target, n);
    case DType::kUInt8:
      return convert_from(x.data<std::uint8_t>() + begin, y.dtype(), target, n);
    case DType::kBool:
      return convert_from(x.data<std::uint8_t>() + begin, y.dtype(), target, n);
    default:
      return false;
  }
}

void cast_part(const Tensor& x, std::int64_t begin, std::int64_t n, Tensor& y, bool saturate,
               Rounding rounding) {
  if (convert_directly(x, begin, n, y)) return;
  const bool integers = !is_floating(x.dtype()) && !is_floating(y.dtype());
  for (std::int64_t i = begin; i < begin + n; i += kBlock) {
    const std::int64_t part = std::min(kBlock, begin + n - i);
    if (integers) {
      std::int64_t block[kBlock];
      load_int64(x.dtype(), x.raw(), i, part, block);
      store_int64(y.dtype(), block, part, y.raw(), i);
    } else if (y.dtype() == DType::kFloat32) {
      load_float(x.dtype(), x.raw(), i, part, y.data<float>() + i);
    } else {
      double block[kBlock];
      load_double(x.dtype(), x.raw(), i, part, block);
      store_double(y.dtype(), block, part, y.raw(), i, saturate, rounding);
    }
  }
}

void run_cast(KernelContext& k, DType to, bool saturate, Rounding rounding) {
  const Tensor& x = k.input(0);
  Tensor& y = k.output(0, to, x.dims());
  if (x.dtype() == to) {
    if (to == DType::kString) {
      assign_elements(x.strings(), x.count(), y.strings());
    } else if (x.bytes() > 0) {
      std::memmove(y.raw(), x.raw(), x.bytes());
    }
  } else if (to == DType::kString) {
    to_strings(x, y);
  } else if (x.dtype() == DType::kString) {
    from_strings(x, y, saturate, rounding);
  } else {
    // A multiple of eight elements per part: packed elements of one byte stay in one thread.
    constexpr std::int64_t kGrain = 16384;
    const std::int64_t parts = (x.count() + 7) / 8;
    k.parallel_for(parts, kGrain / 8, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t last = std::min(end * 8, x.count());
      cast_part(x, begin * 8, last - begin * 8, y, saturate, rounding);
    });
  }
}

Rounding parse_rounding(const Node& node) {
  const std::string mode = need_string(node, "round_mode");
  if (mode == "up") return Rounding::kUp;
  if (mode == "down") return Rounding::kDown;
  if (mode == "nearest") return Rounding::kNearest;
  fail("attribute 'round_mode' is '" + mode + "'");
}

std::unique_ptr<Kernel> create_cast(const KernelCreateContext& create) {
  const auto to = static_cast<DType>(need_int(create.node(), "to"));
  const bool saturate = need_int(create.node(), "saturate") != 0;
  const Rounding rounding = parse_rounding(create.node());
  if (create.input_dtype(0) == to) {
    return make_kernel([](KernelContext& k) { k.output_view(0, 0, k.input(0).dims()); },
                       {.view_of = 0});
  }
  return make_kernel([=](KernelContext& k) { run_cast(k, to, saturate, rounding); });
}

std::unique_ptr<Kernel> create_cast_like(const KernelCreateContext& create) {
  const bool saturate = need_int(create.node(), "saturate") != 0;
  const Rounding rounding = parse_rounding(create.node());
  return make_kernel(
      [=](KernelContext& k) { run_cast(k, k.input(1).dtype(), saturate, rounding); });
}

std::unique_ptr<Kernel> create_bit_cast(const KernelCreateContext& create) {
  const auto to = static_cast<DType>(need_int(create.node(), "to"));
  return make_kernel([to](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (bit_width(to) != bit_width(x.dtype())) fail("the element types differ in size");
    Tensor& y = k.output(0, to, x.dims());
    if (x.bytes() > 0) std::memcpy(y.raw(), x.raw(), x.bytes());
  });
}

template <typename T>
T bound_value(const KernelContext& k, std::size_t i, T fallback) {
  const Tensor* bound = k.optional_input(i);
  if (bound == nullptr) return fallback;
  if (bound->count() != 1) fail("a bound must be a scalar");
  if constexpr (std::is_floating_point_v<T>) {
    double value = 0;
    load_double(bound->dtype(), bound->raw(), 0, 1, &value);
    return static_cast<T>(value);
  } else {
    std::int64_t value = 0;
    load_int64(bound->dtype(), bound->raw(), 0, 1, &value);
    return static_cast<T>(value);
  }
}

void run_clip(KernelContext& k) {
  const Tensor& x = k.input(0);
  Tensor& y = k.output(0, x.dtype(), x.dims());
  if (is_floating(x.dtype()) && x.dtype() != DType::kFloat64) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float low = bound_value<float>(k, 1, -kInfinity);
    const float high = bound_value<float>(k, 2, kInfinity);
    const auto clip = vector_ops().clip;
    k.parallel_for(x.count(), 32768, [&](std::int64_t begin, std::int64_t end) {
      if (x.dtype() == DType::kFloat32) {
        clip(x.data<float>() + begin, y.data<float>() + begin, end - begin, low, high);
        return;
      }
      float block[kBlock];
      for (std::int64_t i = begin; i < end; i += kBlock) {
        const std::int64_t n = std::min(kBlock, end - i);
        load_float(x.dtype(), x.raw(), i, n, block);
        clip(block, block, n, low, high);
        store_float(x.dtype(), block, n, y.raw(), i);
      }
    });
    return;
  }
  dispatch_number(x.dtype(), [&]<typename T>() {
    const T low = bound_value<T>(k, 1, std::numeric_limits<T>::lowest());
    const T high = bound_value<T>(k, 2, std::numeric_limits<T>::max());
    const T* in = x.data<T>();
    T* out = y.data<T>();
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const T raised = in[i] < low ? low : in[i];
      out[i] = high < raised ? high : raised;
    }
  });
}

Support supports_cast(const NodeView& n) {
  const Support in =
      n.check_input(0, kNumericTypes | kFloat8Types | kPackedTypes | kBoolType | kStringType);
  return in ? n.check_output(0,
                             kNumericTypes | kFloat8Types | kPackedTypes | kBoolType | kStringType)
            : in;
}

}  // namespace

void register_cast_kernels(KernelRegistry& registry) {
  registry.add({.op = "Cast", .supports = supports_cast, .create = create_cast});
  registry.add({.op = "CastLike", .supports = supports_cast, .create = create_cast_like});
  registry.add(
      {.op = "BitCast",
       .supports = [](const NodeView& n) { return n.check_input(0, kByteTypes | kPackedTypes); },
       .create = create_bit_cast});
  registry.add(
      {.op = "Clip",
       .supports = [](const NodeView& n) { return n.check_input(0, kNumericTypes); },
       .create =
           [](const KernelCreateContext&) { return make_kernel(run_clip, {.in_place = {0}}); }});
}

}  // namespace xrt::native
