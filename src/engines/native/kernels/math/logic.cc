// SPDX-License-Identifier: Apache-2.0
// Comparisons, logic, bit operations and Where.
#include "engines/native/kernels/common/broadcast.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/kernels/register.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

template <typename In, typename Out, typename Op>
void apply_pair(const KernelContext& k, const Tensor& a, const Tensor& b, Tensor& y, Op op) {
  if (y.count() == 0) return;
  const Tensor* inputs[] = {&a, &b};
  const BroadcastLoop loop(y.dims(), inputs);
  const In* pa = a.data<In>();
  const In* pb = b.data<In>();
  Out* py = y.data<Out>();
  const bool a_dense = loop.dense(0);
  const bool b_dense = loop.dense(1);
  loop.run(k, 4, [=](std::int64_t out, const auto& offsets, std::int64_t n) {
    const In* p = pa + offsets[0];
    const In* q = pb + offsets[1];
    if (a_dense && b_dense) {
      for (std::int64_t i = 0; i < n; ++i) py[out + i] = op(p[i], q[i]);
    } else if (a_dense) {
      for (std::int64_t i = 0; i < n; ++i) py[out + i] = op(p[i], q[0]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) py[out + i] = op(p[0], q[b_dense ? i : 0]);
    }
  });
}

template <typename Op>
void run_compare(KernelContext& k, Op op) {
  const Tensor& a = k.input(0);
  const Tensor& b = k.input(1);
  if (a.dtype() != b.dtype()) fail("the inputs have different element types");
  Tensor& y = k.output(0, DType::kBool, broadcast_dims(a.dims(), b.dims()));
  const DType compute = compute_dtype(a.dtype());
  if (a.dtype() == DType::kString) {
    apply_pair<std::string, std::uint8_t>(k, a, b, y, op);
  } else if (a.dtype() == DType::kBool) {
    apply_pair<std::uint8_t, std::uint8_t>(
        k, a, b, y, [op](std::uint8_t p, std::uint8_t q) { return op(p != 0, q != 0); });
  } else {
    const Tensor p = converted(a, compute);
    const Tensor q = converted(b, compute);
    dispatch_number(compute, [&]<typename T>() { apply_pair<T, std::uint8_t>(k, p, q, y, op); });
  }
}

template <typename Op>
void add_compare(KernelRegistry& registry, const char* op, DTypeSet types) {
  registry.add({.op = op,
                .supports = [types](const NodeView& n) { return n.check_input(0, types); },
                .create =
                    [](const KernelCreateContext&) {
                      return make_kernel([](KernelContext& k) { run_compare(k, Op{}); });
                    }});
}

template <typename Op>
void add_logic(KernelRegistry& registry, const char* op) {
  registry.add({.op = op, .create = [](const KernelCreateContext&) {
                  return make_kernel([](KernelContext& k) {
                    const Tensor& a = k.input(0);
                    const Tensor& b = k.input(1);
                    Tensor& y = k.output(0, DType::kBool, broadcast_dims(a.dims(), b.dims()));
                    apply_pair<std::uint8_t, std::uint8_t>(
                        k, a, b, y,
                        [](std::uint8_t p, std::uint8_t q) { return Op{}(p != 0, q != 0); });
                  });
                }});
}

template <typename Op>
std::unique_ptr<Kernel> make_bit_op(Op op) {
  return make_kernel([op](KernelContext& k) {
    const Tensor& a = k.input(0);
    const Tensor& b = k.input(1);
    Tensor& y = k.output(0, a.dtype(), broadcast_dims(a.dims(), b.dims()));
    dispatch_integer(a.dtype(), [&]<typename T>() { apply_pair<T, T>(k, a, b, y, op); });
  });
}

template <typename Op>
void add_bit_op(KernelRegistry& registry, const char* name, Op op) {
  registry.add({.op = name,
                .supports = [](const NodeView& n) { return n.check_input(0, kIntegerTypes); },
                .create = [op](const KernelCreateContext&) { return make_bit_op(op); }});
}

// A shift by the width or more, or by a negative number, moves every bit out.
template <typename T>
bool all_out(T shift) {
  return shift < T{0} || static_cast<std::uint64_t>(shift) >= sizeof(T) * 8;
}
struct ShiftLeft {
  template <typename T>
  T operator()(T a, T b) const {
    return all_out(b) ? T{0} : static_cast<T>(static_cast<std::uint64_t>(a) << b);
  }
};
struct ShiftRight {
  template <typename T>
  T operator()(T a, T b) const {
    if (all_out(b)) return a < T{0} ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> b);
  }
};

std::unique_ptr<Kernel> create_bit_shift(const KernelCreateContext& create) {
  const std::string direction = need_string(create.node(), "direction");
  if (direction == "LEFT") return make_bit_op(ShiftLeft{});
  if (direction == "RIGHT") return make_bit_op(ShiftRight{});
  fail("attribute 'direction' is '" + direction + "', not LEFT or RIGHT");
}

// The strides are known when this is compiled, and both sides are read: what vectorises.
template <int A, int B, typename T>
void select(const std::uint8_t* c, const T* p, const T* q, T* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T a = p[i * A];
    const T b = q[i * B];
    y[i] = c[i] != 0 ? a : b;
  }
}

void run_where(KernelContext& k) {
  const Tensor& condition = k.input(0);
  const Tensor& a = k.input(1);
  const Tensor& b = k.input(2);
  if (a.dtype() != b.dtype()) fail("the inputs have different element types");
  Tensor& y = k.output(0, a.dtype(), broadcast_inputs(k, 3));
  if (y.count() == 0) return;
  const Tensor* inputs[] = {&condition, &a, &b};
  const BroadcastLoop loop(y.dims(), inputs);
  const std::int64_t sc = loop.dense(0) ? 1 : 0;
  const std::int64_t sa = loop.dense(1) ? 1 : 0;
  const std::int64_t sb = loop.dense(2) ? 1 : 0;
  dispatch_move(a.dtype(), [&]<typename T>() {
    const auto* pc = condition.data<std::uint8_t>();
    const T* pa = a.data<T>();
    const T* pb = b.data<T>();
    T* py = y.data<T>();
    loop.run(k, 4, [=](std::int64_t out, const auto& offsets, std::int64_t n) {
      const std::uint8_t* c = pc + offsets[0];
      const T* p = pa + offsets[1];
      const T* q = pb + offsets[2];
      if constexpr (std::is_arithmetic_v<T>) {
        if (sc == 1) {
          T* to = py + out;
          if (sa == 1) return sb == 1 ? select<1, 1>(c, p, q, to, n) : select<1, 0>(c, p, q, to, n);
          return sb == 1 ? select<0, 1>(c, p, q, to, n) : select<0, 0>(c, p, q, to, n);
        }
      }
      for (std::int64_t i = 0; i < n; ++i)
        assign_element(py[out + i], c[i * sc] != 0 ? p[i * sa] : q[i * sb]);
    });
  });
}

}  // namespace

void register_logic_kernels(KernelRegistry& registry) {
  add_compare<std::equal_to<>>(registry, "Equal", kNumericTypes | kBoolType | kStringType);
  add_compare<std::less<>>(registry, "Less", kNumericTypes);
  add_compare<std::less_equal<>>(registry, "LessOrEqual", kNumericTypes);
  add_compare<std::greater<>>(registry, "Greater", kNumericTypes);
  add_compare<std::greater_equal<>>(registry, "GreaterOrEqual", kNumericTypes);
  add_logic<std::logical_and<>>(registry, "And");
  add_logic<std::logical_or<>>(registry, "Or");
  add_logic<std::not_equal_to<>>(registry, "Xor");
  add_bit_op(registry, "BitwiseAnd", [](auto a, auto b) { return a & b; });
  add_bit_op(registry, "BitwiseOr", [](auto a, auto b) { return a | b; });
  add_bit_op(registry, "BitwiseXor", [](auto a, auto b) { return a ^ b; });
  registry.add({.op = "BitShift",
                .supports = [](const NodeView& n) { return n.check_input(0, kIntegerTypes); },
                .create = create_bit_shift});
  registry.add(
      {.op = "Where",
       .supports = [](const NodeView& n) { return n.check_input(1, kByteTypes | kStringType); },
       .create = [](const KernelCreateContext&) { return make_kernel(run_where); }});
}

}  // namespace xrt::native
