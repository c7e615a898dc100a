// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcublasLt.so: products on the CPU, in the order of the stand-in's streams.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "values.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using standin::Type;

constexpr int kInvalid = 7, kNotSupported = 15;

std::map<int, Type> kTypes = {{0, Type::kFloat},   {1, Type::kDouble}, {2, Type::kHalf},
                              {14, Type::kBfloat}, {10, Type::kInt32}, {3, Type::kInt8}};

struct Operation {
  int compute = 0, scale_type = 0, transpose_a = 0, transpose_b = 0, epilogue = 1, bias_type = 0;
  const void* bias = nullptr;
};
struct Layout {
  int type = 0;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0, batch_stride = 0;
  std::int32_t batch = 1;
};
struct Way {
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

template <typename T>
int set(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return kInvalid;
  std::memcpy(&to, value, bytes);
  return 0;
}

}  // namespace

EXPORT int cublasLtCreate(void** handle) {
  *handle = new int(1);
  return 0;
}
EXPORT std::size_t cublasLtGetVersion() { return 1; }
EXPORT int cublasLtMatmulDescCreate(Operation** made, int compute, int scale_type) {
  *made = new Operation{.compute = compute, .scale_type = scale_type};
  return 0;
}
EXPORT int cublasLtMatmulDescDestroy(Operation* operation) {
  delete operation;
  return 0;
}
EXPORT int cublasLtMatmulDescSetAttribute(Operation* o, int attribute, const void* value,
                                          std::size_t bytes) {
  if (attribute == 3) return set(o->transpose_a, value, bytes);
  if (attribute == 4) return set(o->transpose_b, value, bytes);
  if (attribute == 7) return set(o->epilogue, value, bytes);
  if (attribute == 8) return set(o->bias, value, bytes);
  if (attribute == 26) return set(o->bias_type, value, bytes);
  return kInvalid;
}
EXPORT int cublasLtMatrixLayoutCreate(Layout** made, int type, std::uint64_t rows,
                                      std::uint64_t columns, std::int64_t leading) {
  if (!kTypes.contains(type) || leading < static_cast<std::int64_t>(rows)) return kInvalid;
  *made = new Layout{.type = type, .rows = rows, .columns = columns, .leading = leading};
  return 0;
}
EXPORT int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return 0;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(Layout* l, int attribute, const void* value,
                                            std::size_t bytes) {
  if (attribute == 5) return set(l->batch, value, bytes);
  if (attribute == 6) return set(l->batch_stride, value, bytes);
  return kInvalid;
}
EXPORT int cublasLtMatmulPreferenceCreate(void** made) {
  *made = new int(0);
  return 0;
}
EXPORT int cublasLtMatmulPreferenceDestroy(int* preference) {
  delete preference;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t) { return 0; }

namespace {
// The library multiplies halves into floats, but adds a bias only of the result's type.
int judge(const Operation& o, const Layout& a, const Layout& b, const Layout& d) {
  if (a.type != b.type) return kNotSupported;
  if ((o.epilogue & 4) != 0 && o.bias_type != d.type) return kNotSupported;
  const auto k = o.transpose_a != 0 ? a.rows : a.columns;
  const auto k_b = o.transpose_b != 0 ? b.columns : b.rows;
  return k == k_b ? 0 : kInvalid;
}
}  // namespace

EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, const Operation* o, const Layout* a,
                                          const Layout* b, const Layout*, const Layout* d, void*,
                                          int most, Way* ways, int* found) {
  *found = 0;
  if (const int status = judge(*o, *a, *b, *d)) return status;
  for (int way = 0; way < std::min(most, 2); ++way) {
    ways[way] = {};
    ways[way].algorithm[0] = 77 + static_cast<std::uint64_t>(way);
    ways[way].workspace = 100;
    ++*found;
  }
  return 0;
}
EXPORT int cublasLtMatmulAlgoCheck(void*, const Operation* o, const Layout* a, const Layout* b,
                                   const Layout*, const Layout* d, const std::uint64_t* algorithm,
                                   Way* way) {
  way->workspace = 100;
  if (algorithm[0] != 77 && algorithm[0] != 78) return kInvalid;
  return judge(*o, *a, *b, *d);
}
EXPORT int cublasLtMatmul(void*, const Operation* given, const void* alpha, const void* a,
                          const Layout* la, const void* b, const Layout* lb, const void* beta,
                          const void* c, const Layout* lc, void* d, const Layout* ld,
                          const std::uint64_t* algorithm, void*, std::size_t, void* stream) {
  if (algorithm[0] != 77 && algorithm[0] != 78) return kInvalid;
  const Operation o = *given;
  const Layout of_a = *la, of_b = *lb, of_c = *lc, of_d = *ld;
  const Type scale = kTypes.at(o.scale_type);
  const double times = standin::load(alpha, scale, 0), plus = standin::load(beta, scale, 0);
  standin::queue(stream, "cublasLtMatmul", [=] {
    const auto k = static_cast<std::int64_t>(o.transpose_a != 0 ? of_a.rows : of_a.columns);
    for (std::int64_t batch = 0; batch < of_d.batch; ++batch) {
      for (std::int64_t column = 0; column < static_cast<std::int64_t>(of_d.columns); ++column) {
        for (std::int64_t row = 0; row < static_cast<std::int64_t>(of_d.rows); ++row) {
          double sum = 0;
          for (std::int64_t i = 0; i < k; ++i) {
            const std::int64_t at_a =
                o.transpose_a != 0 ? i + row * of_a.leading : row + i * of_a.leading;
            const std::int64_t at_b =
                o.transpose_b != 0 ? column + i * of_b.leading : i + column * of_b.leading;
            sum += standin::load(a, kTypes.at(of_a.type), batch * of_a.batch_stride + at_a) *
                   standin::load(b, kTypes.at(of_b.type), batch * of_b.batch_stride + at_b);
          }
          double value = times * sum;
          if (plus != 0) {
            value += plus * standin::load(c, kTypes.at(of_c.type),
                                          batch * of_c.batch_stride + row + column * of_c.leading);
          }
          if ((o.epilogue & 4) != 0) value += standin::load(o.bias, kTypes.at(o.bias_type), row);
          if ((o.epilogue & 2) != 0) value = std::max(value, 0.0);
          if ((o.epilogue & 32) != 0) {
            value *=
                0.5 * (1 + std::tanh(0.7978845608 * (value + 0.044715 * value * value * value)));
          }
          standin::store(d, kTypes.at(of_d.type),
                         batch * of_d.batch_stride + row + column * of_d.leading, value);
        }
      }
    }
  });
  return 0;
}
