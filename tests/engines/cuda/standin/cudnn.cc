// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcudnn.so.9: graphs of operations on the CPU, in the order of the stand-in's
// streams. It knows convolutions, products, reductions and what is computed element by element, in
// graphs as the engine makes them. XRT_STANDIN_CUDNN_REFUSES: "attention" or "convolution".
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "values.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using standin::Type;
using Dims = std::vector<std::int64_t>;

constexpr int kBadParam = 2000, kNotSupported = 3000;
enum Kind {
  kPointwiseKind = 0,
  kConvolutionKind = 1,
  kEngineKind = 2,
  kConfigKind = 3,
  kHeuristicKind = 4,
  kPlanKind = 5,
  kConvolutionForwardKind = 10,
  kConvolutionBackwardFilterKind = 11,
  kConvolutionBackwardDataKind = 12,
  kPointwiseOperationKind = 13,
  kGraphKind = 15,
  kPackKind = 16,
  kTensorKind = 17,
  kMatmulOperationKind = 19,
  kReductionOperationKind = 22,
  kAttentionKind = 41,
};

struct Descriptor;
struct Attribute {
  int type = 0;
  std::int64_t count = 0;
  std::string bytes;
  std::vector<std::shared_ptr<Descriptor>> descriptors;  // as they were when they were set
};
struct Descriptor {
  int kind = 0;
  bool is_final = false;
  std::map<int, Attribute> attributes;

  const Attribute& at(int name) const { return attributes.at(name); }
  bool has(int name) const { return attributes.contains(name); }
  const Descriptor& inner(int name) const { return *at(name).descriptors.at(0); }
  template <typename T>
  std::vector<T> all(int name) const {
    const Attribute& a = at(name);
    std::vector<T> values(static_cast<std::size_t>(a.count));
    std::memcpy(values.data(), a.bytes.data(), a.bytes.size());
    return values;
  }
  template <typename T>
  T one(int name) const {
    return all<T>(name).at(0);
  }
};

std::size_t size_of(int type) {
  switch (type) {
    case 2:
    case 24:
      return 1;
    case 0:
    case 3:
    case 5:
    case 6:
    case 15:
      return 8;
    default:
      return 4;
  }
}

// --- plans as text ---
void write(std::ostream& to, const Descriptor& d) {
  to << d.kind << ' ' << d.attributes.size() << ' ';
  for (const auto& [name, a] : d.attributes) {
    to << name << ' ' << a.type << ' ' << a.count << ' ' << a.descriptors.size() << ' ';
    for (const auto& inner : a.descriptors) write(to, *inner);
    if (!a.descriptors.empty()) continue;
    for (const char byte : a.bytes) to << static_cast<int>(static_cast<unsigned char>(byte)) << ' ';
  }
}
std::shared_ptr<Descriptor> read(std::istream& from) {
  auto d = std::make_shared<Descriptor>();
  std::size_t attributes = 0;
  from >> d->kind >> attributes;
  for (; attributes > 0 && from; --attributes) {
    int name = 0;
    std::size_t inner = 0;
    from >> name;
    Attribute& a = d->attributes[name];
    from >> a.type >> a.count >> inner;
    for (std::size_t i = 0; i < inner && from; ++i) a.descriptors.push_back(read(from));
    if (inner != 0) continue;
    a.bytes.resize(size_of(a.type) * static_cast<std::size_t>(a.count));
    for (char& byte : a.bytes) {
      int value = 0;
      from >> value;
      byte = static_cast<char>(value);
    }
  }
  return d;
}

// --- running a graph ---
Type type_of(int type) {
  static const std::map<int, Type> kTypes = {
      {0, Type::kFloat}, {1, Type::kDouble}, {2, Type::kHalf}, {9, Type::kBfloat},
      {4, Type::kInt32}, {11, Type::kInt32}, {3, Type::kInt8}};
  return kTypes.at(type);
}

class Run {
 public:
  explicit Run(std::map<std::int64_t, void*> memory) : memory_(std::move(memory)) {}

  void operation(const Descriptor& o) {
    if (o.kind == kMatmulOperationKind) {
      matmul(o.inner(1520), o.inner(1521), o.inner(1522));
    } else if (o.kind == kReductionOperationKind) {
      reduce(o);
    } else if (o.kind == kPointwiseOperationKind) {
      pointwise(o);
    } else if (o.kind == kConvolutionForwardKind) {
      convolve(o.inner(702), o.inner(703), o.inner(704), o.inner(705), nullptr);
    } else if (o.kind == kConvolutionBackwardDataKind) {
      convolve(o.inner(708), o.inner(709), o.inner(710), o.inner(711), &o.inner(710));
    } else if (o.kind == kConvolutionBackwardFilterKind) {
      convolve(o.inner(714), o.inner(715), o.inner(716), o.inner(717), &o.inner(715));
    } else {
      attention(o);
    }
  }

 private:
  static Dims dims(const Descriptor& t) { return t.all<std::int64_t>(902); }
  static bool is_virtual(const Descriptor& t) { return t.has(907); }
  // Elements by their coordinates, which are cut where the tensor repeats.
  std::int64_t place(const Descriptor& t, const Dims& at) const {
    const Dims sizes = dims(t), strides = t.all<std::int64_t>(903);
    std::int64_t place = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      place += (sizes[i] == 1 ? 0 : at[i]) * strides[i];
    return place;
  }
  double get(const Descriptor& t, const Dims& at) {
    const auto id = t.one<std::int64_t>(906);
    if (is_virtual(t)) return values_.at(id)[static_cast<std::size_t>(place(t, at))];
    return standin::load(memory_.at(id), type_of(t.one<int>(901)), place(t, at));
  }
  void put(const Descriptor& t, const Dims& at, double value) {
    const auto id = t.one<std::int64_t>(906);
    const Type type = type_of(t.one<int>(901));
    if (!is_virtual(t)) {
      standin::store(memory_.at(id), type, place(t, at), value);
      return;
    }
    std::vector<double>& all = values_[id];
    const auto where = static_cast<std::size_t>(place(t, at));
    if (all.size() <= where) all.resize(where + 1);
    double rounded = value;
    if (type == Type::kHalf || type == Type::kBfloat) {
      std::uint16_t bits = 0;
      standin::store(&bits, type, 0, value);
      rounded = standin::load(&bits, type, 0);
    }
    all[where] = rounded;
  }
  template <typename Visit>
  static void each(const Dims& sizes, const Visit& visit) {
    Dims at(sizes.size(), 0);
    for (;;) {
      visit(at);
      std::size_t i = sizes.size();
      while (i-- > 0) {
        if (++at[i] < sizes[i]) break;
        at[i] = 0;
        if (i == 0) return;
      }
    }
  }

  void matmul(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
    const std::int64_t depth = dims(a).back();
    each(dims(c), [&](const Dims& at) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        Dims at_a = at, at_b = at;
        at_a.back() = k;
        at_b[at_b.size() - 2] = k;
        sum += get(a, at_a) * get(b, at_b);
      }
      put(c, at, sum);
    });
  }

  void reduce(const Descriptor& o) {
    const Descriptor &x = o.inner(1610), &y = o.inner(1611);
    const int mode = o.inner(1612).one<int>(1600);
    each(dims(y), [&](const Dims& at) {
      double value = mode == 3 ? -INFINITY : 0;
      for (std::int64_t i = 0; i < dims(x).back(); ++i) {
        Dims from = at;
        from.back() = i;
        value = mode == 3 ? std::max(value, get(x, from)) : value + get(x, from);
      }
      put(y, at, value);
    });
  }

  void pointwise(const Descriptor& o) {
    const Descriptor& how = o.inner(750);
    const Descriptor &x = o.inner(751), &y = o.inner(753);
    const int mode = how.one<int>(0);
    each(dims(y), [&](const Dims& at) {
      const double a = mode == 501 ? 0 : get(x, at);
      const double b = o.has(752) ? get(o.inner(752), at) : 0;
      double value = 0;
      switch (mode) {
        case 0:
          value = a + b;
          break;
        case 1:
          value = a * b;
          break;
        case 6:
          value = a / b;
          break;
        case 9:
          value = a - b;
          break;
        case 13:
          value = std::exp(a);
          break;
        case 15:
          value = std::log(a);
          break;
        case 100:
          value = std::max(a, 0.0);
          break;
        case 303:
          value = a >= b ? 1 : 0;
          break;
        case 501:
          value = static_cast<double>(at[how.one<std::int64_t>(9)]);
          break;
        case 601:
          value = get(o.inner(758), at) != 0 ? a : b;
          break;
        default:
          std::abort();
      }
      put(y, at, value);
    });
  }

  // y, or that of `changed`, w or x, of which it is made.
  void convolve(const Descriptor& how, const Descriptor& w, const Descriptor& x,
                const Descriptor& y, const Descriptor* changed) {
    const Dims kernel = dims(w), from = dims(x), to = dims(y);
    const Dims dilations = how.all<std::int64_t>(102), strides = how.all<std::int64_t>(103),
               before = how.all<std::int64_t>(105);
    const std::int64_t of_group = kernel[0] / (from[1] / kernel[1]);
    std::map<Dims, double> sums;
    if (changed != nullptr) each(dims(*changed), [&](const Dims& at) { sums[at] = 0; });
    each(to, [&](const Dims& at) {
      double sum = 0;
      Dims sizes = kernel;
      sizes[0] = 1;
      each(sizes, [&](const Dims& tap) {
        Dims at_w = tap, at_x = tap;
        at_w[0] = at[1];
        at_x[0] = at[0];
        at_x[1] = at[1] / of_group * kernel[1] + tap[1];
        for (std::size_t i = 2; i < to.size(); ++i) {
          at_x[i] = at[i] * strides[i - 2] - before[i - 2] + tap[i] * dilations[i - 2];
          if (at_x[i] < 0 || at_x[i] >= from[i]) return;
        }
        if (changed == nullptr) {
          sum += get(x, at_x) * get(w, at_w);
        } else if (changed == &w) {
          sums[at_w] += get(x, at_x) * get(y, at);
        } else {
          sums[at_x] += get(w, at_w) * get(y, at);
        }
      });
      if (changed == nullptr) put(y, at, sum);
    });
    for (const auto& [at, sum] : sums) put(*changed, at, sum);
  }

  void attention(const Descriptor& o) {
    const Descriptor &q = o.inner(2800), &k = o.inner(2801), &v = o.inner(2802), &y = o.inner(2803);
    const double scale = get(o.inner(2805), Dims(4, 0));
    const std::int64_t keys = dims(k)[2], width = dims(q)[3];
    Dims rows = dims(y);
    rows.back() = 1;
    each(rows, [&](const Dims& at) {
      std::vector<double> weights(static_cast<std::size_t>(keys));
      double most = -INFINITY, sum = 0;
      for (std::int64_t t = 0; t < keys; ++t) {
        double& score = weights[static_cast<std::size_t>(t)];
        for (std::int64_t d = 0; d < width; ++d) {
          score += get(q, {at[0], at[1], at[2], d}) * get(k, {at[0], at[1], t, d}) * scale;
        }
        most = std::max(most, score);
      }
      for (double& weight : weights) sum += weight = std::exp(weight - most);
      for (std::int64_t e = 0; e < dims(y)[3]; ++e) {
        double value = 0;
        for (std::int64_t t = 0; t < keys; ++t) {
          value += weights[static_cast<std::size_t>(t)] / sum * get(v, {at[0], at[1], t, e});
        }
        put(y, {at[0], at[1], at[2], e}, value);
      }
    });
  }

  std::map<std::int64_t, void*> memory_;
  std::map<std::int64_t, std::vector<double>> values_;  // of virtual tensors
};

void* current_stream = nullptr;

}  // namespace

EXPORT int cudnnCreate(void** handle) {
  *handle = new int(1);
  return 0;
}
EXPORT int cudnnSetStream(void*, void* stream) {
  current_stream = stream;
  return 0;
}
EXPORT const char* cudnnGetErrorString(int) { return "the stand-in refuses"; }
EXPORT std::size_t cudnnGetVersion() { return 91900; }
EXPORT int cudnnBackendCreateDescriptor(int kind, Descriptor** made) {
  *made = new Descriptor{.kind = kind, .attributes = {}};
  return 0;
}
EXPORT int cudnnBackendDestroyDescriptor(Descriptor* d) {
  delete d;
  return 0;
}
EXPORT int cudnnBackendSetAttribute(Descriptor* d, int name, int type, std::int64_t count,
                                    const void* values) {
  if (d->is_final) return kBadParam;
  if (d->kind == kPlanKind && name == 405) {
    std::istringstream text(
        std::string(static_cast<const char*>(values), static_cast<std::size_t>(count)));
    std::string title;
    text >> title;
    if (title != "standin") return kBadParam;
    d->attributes[401] = {.type = 15, .count = 1, .bytes = {}, .descriptors = {read(text)}};
    return 0;
  }
  Attribute& a = d->attributes[name];
  a = {.type = type, .count = count, .bytes = {}, .descriptors = {}};
  if (type == 15) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto* inner = static_cast<Descriptor* const*>(values)[i];
      if (!inner->is_final) return kBadParam;
      a.descriptors.push_back(std::make_shared<Descriptor>(*inner));
    }
    return 0;
  }
  a.bytes.assign(static_cast<const char*>(values), size_of(type) * static_cast<std::size_t>(count));
  return 0;
}
EXPORT int cudnnBackendFinalize(Descriptor* d) {
  d->is_final = true;
  if (d->kind != kGraphKind) return 0;
  const char* refused = std::getenv("XRT_STANDIN_CUDNN_REFUSES");
  for (const auto& operation : d->at(801).descriptors) {
    const bool is_convolution = operation->kind >= kConvolutionForwardKind &&
                                operation->kind <= kConvolutionBackwardDataKind;
    const std::string what = is_convolution ? "convolution" : "attention";
    const bool tells = is_convolution || operation->kind == kMatmulOperationKind ||
                       operation->kind == kAttentionKind;
    if (tells && refused != nullptr && what == refused) return kNotSupported;
  }
  return 0;
}
EXPORT int cudnnBackendGetAttribute(Descriptor* d, int name, int, std::int64_t wanted,
                                    std::int64_t* count, void* values) {
  if (d->kind == kHeuristicKind && name == 202) {
    constexpr std::int64_t kWays = 2;
    *count = kWays;
    for (std::int64_t i = 0; i < wanted && i < kWays; ++i) {
      Descriptor* config = static_cast<Descriptor**>(values)[i];
      config->attributes[1] = d->at(201);
      config->is_final = true;
    }
    return 0;
  }
  if (d->kind == kConfigKind && name == 300) return 0;
  if (d->kind == kEngineKind) {
    *count = 0;
    return 0;
  }
  if (d->kind == kPlanKind && name == 402) {
    *static_cast<std::int64_t*>(values) = 128;
    return 0;
  }
  if (d->kind == kPlanKind && name == 405) {
    std::ostringstream text;
    text << "standin ";
    write(text, d->inner(401));
    *count = static_cast<std::int64_t>(text.str().size());
    if (values != nullptr) std::memcpy(values, text.str().data(), static_cast<std::size_t>(wanted));
    return 0;
  }
  return kBadParam;
}
EXPORT int cudnnBackendExecute(void*, const Descriptor* plan, const Descriptor* pack) {
  const auto ids = pack->all<std::int64_t>(1000);
  const auto pointers = pack->all<void*>(1001);
  std::map<std::int64_t, void*> memory;
  std::map<std::int64_t, float> numbers;
  const Descriptor graph = plan->inner(401).inner(1);
  // Numbers are read when the work is queued.
  const auto keep_numbers = [&](const Descriptor& operation) {
    for (const auto& [name, a] : operation.attributes) {
      for (const auto& t : a.descriptors) {
        if (t->kind != kTensorKind || !t->has(908)) continue;
        const auto id = t->one<std::int64_t>(906);
        const auto at = std::find(ids.begin(), ids.end(), id) - ids.begin();
        numbers[id] = *static_cast<float*>(pointers.at(static_cast<std::size_t>(at)));
      }
    }
  };
  for (const auto& operation : graph.at(801).descriptors) keep_numbers(*operation);
  for (std::size_t i = 0; i < ids.size(); ++i) memory[ids[i]] = pointers[i];
  standin::queue(current_stream, "cudnnBackendExecute", [=] {
    std::map<std::int64_t, void*> all = memory;
    std::map<std::int64_t, float> kept = numbers;
    for (auto& [id, value] : kept) all[id] = &value;
    Run run(all);
    for (const auto& operation : graph.at(801).descriptors) run.operation(*operation);
  });
  return 0;
}
