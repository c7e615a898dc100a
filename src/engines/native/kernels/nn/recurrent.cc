// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM, computed in float (double for double).
#include <algorithm>
#include <array>
#include <cmath>

#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

enum class Cell : std::uint8_t { kRnn, kGru, kLstm };

struct Activation {
  enum class Kind : std::uint8_t {
    kRelu,
    kTanh,
    kSigmoid,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSoftsign,
    kSoftplus,
  };
  Kind kind = Kind::kTanh;
  float alpha = 0, beta = 0;

  template <typename T>
  void apply(T* x, std::int64_t n) const {
    if constexpr (std::is_same_v<T, float>) {
      const VectorOps& ops = vector_ops();
      switch (kind) {
        case Kind::kRelu:
          return ops.relu(x, x, n, 0, 0);
        case Kind::kTanh:
          return ops.tanh(x, x, n, 0, 0);
        case Kind::kSigmoid:
          return ops.sigmoid(x, x, n, 0, 0);
        default:
          break;
      }
    }
    for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(value(static_cast<double>(x[i])));
  }

  double value(double x) const {
    const auto a = static_cast<double>(alpha);
    const auto b = static_cast<double>(beta);
    switch (kind) {
      case Kind::kRelu:
        return std::max(x, 0.0);
      case Kind::kTanh:
        return std::tanh(x);
      case Kind::kSigmoid:
        return 1 / (1 + std::exp(-x));
      case Kind::kAffine:
        return a * x + b;
      case Kind::kLeakyRelu:
        return x >= 0 ? x : a * x;
      case Kind::kThresholdedRelu:
        return x >= a ? x : 0;
      case Kind::kScaledTanh:
        return a * std::tanh(b * x);
      case Kind::kHardSigmoid:
        return std::clamp(a * x + b, 0.0, 1.0);
      case Kind::kElu:
        return x >= 0 ? x : a * std::expm1(x);
      case Kind::kSoftsign:
        return x / (1 + std::fabs(x));
      case Kind::kSoftplus:
        return std::log1p(std::exp(x));
    }
    return x;
  }
};

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// `alphas` and `betas` are consumed by the functions that have such a parameter.
Activation parse_activation(const std::string& name, const std::vector<float>& alphas,
                            std::size_t& next_alpha, const std::vector<float>& betas,
                            std::size_t& next_beta) {
  using Kind = Activation::Kind;
  struct Row {
    const char* name;
    Kind kind;
    bool has_alpha, has_beta;
    float alpha, beta;
  };
  static constexpr Row kRows[] = {{"relu", Kind::kRelu, false, false, 0, 0},
                                  {"tanh", Kind::kTanh, false, false, 0, 0},
                                  {"sigmoid", Kind::kSigmoid, false, false, 0, 0},
                                  {"affine", Kind::kAffine, true, true, 1, 0},
                                  {"leakyrelu", Kind::kLeakyRelu, true, false, 0.01F, 0},
                                  {"thresholdedrelu", Kind::kThresholdedRelu, true, false, 1, 0},
                                  {"scaledtanh", Kind::kScaledTanh, true, true, 1, 1},
                                  {"hardsigmoid", Kind::kHardSigmoid, true, true, 0.2F, 0.5F},
                                  {"elu", Kind::kElu, true, false, 1, 0},
                                  {"softsign", Kind::kSoftsign, false, false, 0, 0},
                                  {"softplus", Kind::kSoftplus, false, false, 0, 0}};
  const std::string wanted = lowered(name);
  for (const Row& row : kRows) {
    if (wanted != row.name) continue;
    Activation a{row.kind, row.alpha, row.beta};
    if (row.has_alpha && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    if (row.has_beta && next_beta < betas.size()) a.beta = betas[next_beta++];
    return a;
  }
  fail("activation '" + name + "' is not known");
}

struct Config {
  Cell cell;
  std::int64_t gates;
  std::int64_t directions = 1;
  bool reverse = false;  // of the first direction
  std::int64_t hidden;
  bool batch_first;
  bool linear_before_reset;
  bool input_forget;
  float clip;                           // 0: none
  std::vector<Activation> activations;  // per direction: 1 (RNN), 2 (GRU) or 3 (LSTM)
};

Config parse_config(const Node& node, Cell cell) {
  Config c{};
  c.cell = cell;
  c.gates = cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 3 : 4;
  const std::string direction = need_string(node, "direction");
  if (direction == "bidirectional")
    c.directions = 2;
  else if (direction == "reverse")
    c.reverse = true;
  else if (direction != "forward")
    fail("direction '" + direction + "' is not known");
  c.hidden = node.attr_int("hidden_size", 0);
  c.batch_first = need_int(node, "layout") != 0;
  c.linear_before_reset = cell == Cell::kGru && need_int(node, "linear_before_reset") != 0;
  c.input_forget = cell == Cell::kLstm && need_int(node, "input_forget") != 0;
  c.clip = node.attr_float("clip", 0.0F);
  std::vector<std::string> names = node.attr_strings("activations");
  const std::size_t per_direction = cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 2 : 3;
  const auto wanted = per_direction * static_cast<std::size_t>(c.directions);
  if (names.empty()) {
    static const char* const kDefaults[] = {"Sigmoid", "Tanh", "Tanh"};
    for (std::size_t i = 0; i < wanted; ++i) {
      names.emplace_back(cell == Cell::kRnn ? "Tanh" : kDefaults[i % per_direction]);
    }
  }
  if (names.size() != wanted) fail("'activations' names another number of functions");
  const std::vector<float> alphas = node.attr_floats("activation_alpha");
  const std::vector<float> betas = node.attr_floats("activation_beta");
  std::size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : names) {
    c.activations.push_back(parse_activation(name, alphas, next_alpha, betas, next_beta));
  }
  return c;
}

template <typename T>
T dot(const T* a, const T* b, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    return vector_ops().dot(a, b, n);
  } else {
    T sum{};
    for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
}

// One direction of one run.
template <typename T>
class Runner {
 public:
  Runner(const KernelContext& k, const Config& c, std::int64_t batch, std::int64_t input)
      : k_(k), c_(c), batch_(batch), input_(input), width_(c.gates * c.hidden) {}

  const T* w = nullptr;         // [gates * hidden, input]
  const T* r = nullptr;         // [gates * hidden, hidden]
  const T* bias = nullptr;      // [2 * gates * hidden], W's then R's; null: 0
  const T* peephole = nullptr;  // [3 * hidden], i, o, f; null: 0
  T* h = nullptr;               // [batch, hidden], in and out
  T* c = nullptr;               // likewise; LSTM only
  const Activation* activations = nullptr;

  // gates += rows of `x` times the transposed rows of `m`.
  void project(const T* x, std::int64_t n, const T* m, std::int64_t first, std::int64_t count,
               T* gates) const {
    k_.parallel_for(batch_ * count,
                    std::max<std::int64_t>(65536 / std::max<std::int64_t>(n, 1), 16),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        const std::int64_t b = i / count;
                        const std::int64_t g = first + i % count;
                        gates[b * width_ + g] += dot(x + b * n, m + g * n, n);
                      }
                    });
  }

  // One time step for rows whose `active` is set; `x` is [batch, input].
  void step(const T* x, const std::vector<bool>& active) {
    gates_.assign(static_cast<std::size_t>(batch_ * width_), T{0});
    const std::int64_t hidden = c_.hidden;
    const bool split = c_.cell == Cell::kGru;
    for (std::int64_t b = 0; bias != nullptr && b < batch_; ++b) {
      for (std::int64_t g = 0; g < width_; ++g) {
        T& gate = gates_[b * width_ + g];
        gate = bias[g];
        if (!split || g < 2 * hidden) gate += bias[width_ + g];
      }
    }
    project(x, input_, w, 0, width_, gates_.data());
    project(h, hidden, r, 0, split ? 2 * hidden : width_, gates_.data());
    if (split) {
      gru(active);
      return;
    }
    for (std::int64_t b = 0; b < batch_; ++b) {
      if (!active[b]) continue;
      T* gate = gates_.data() + b * width_;
      if (c_.cell == Cell::kRnn) {
        clip(gate, hidden);
        activations[0].apply(gate, hidden);
        std::copy_n(gate, hidden, h + b * hidden);
      } else {
        lstm(gate, b);
      }
    }
  }

 private:
  void clip(T* x, std::int64_t n) const {
    if (c_.clip <= 0) return;
    const T limit = static_cast<T>(c_.clip);
    for (std::int64_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], -limit, limit);
  }

  void lstm(T* gate, std::int64_t b) {
    const std::int64_t n = c_.hidden;
    T* cell = c + b * n;
    T* in = gate;
    T* out = gate + n;
    T* forget = gate + 2 * n;
    T* fresh = gate + 3 * n;
    if (peephole != nullptr) {
      for (std::int64_t i = 0; i < n; ++i) {
        in[i] += peephole[i] * cell[i];
        forget[i] += peephole[2 * n + i] * cell[i];
      }
    }
    clip(in, n);
    clip(forget, 2 * n);  // forget and fresh
    activations[0].apply(in, n);
    activations[0].apply(forget, n);
    activations[1].apply(fresh, n);
    for (std::int64_t i = 0; i < n; ++i) {
      const T keep = c_.input_forget ? T{1} - in[i] : forget[i];
      cell[i] = keep * cell[i] + in[i] * fresh[i];
      if (peephole != nullptr) out[i] += peephole[n + i] * cell[i];
    }
    clip(out, n);
    activations[0].apply(out, n);
    std::copy_n(cell, n, fresh);
    activations[2].apply(fresh, n);
    T* state = h + b * n;
    for (std::int64_t i = 0; i < n; ++i) state[i] = out[i] * fresh[i];
  }

  void gru(const std::vector<bool>& active) {
    const std::int64_t n = c_.hidden;
    reset_.assign(static_cast<std::size_t>(batch_ * width_), T{0});
    scaled_.assign(h, h + batch_ * n);
    for (std::int64_t b = 0; b < batch_; ++b) {
      T* gate = gates_.data() + b * width_;
      clip(gate, 2 * n);
      activations[0].apply(gate, 2 * n);  // update and reset
      for (std::int64_t i = 0; !c_.linear_before_reset && i < n; ++i) {
        scaled_[b * n + i] *= gate[n + i];
      }
    }
    // The hidden gate's recurrent part.
    project(scaled_.data(), n, r, 2 * n, n, reset_.data());
    for (std::int64_t b = 0; b < batch_; ++b) {
      if (!active[b]) continue;
      T* gate = gates_.data() + b * width_;
      T* fresh = gate + 2 * n;
      const T* recurrent = reset_.data() + b * width_ + 2 * n;
      for (std::int64_t i = 0; i < n; ++i) {
        const T part = recurrent[i] + (bias != nullptr ? bias[width_ + 2 * n + i] : T{0});
        fresh[i] += c_.linear_before_reset ? gate[n + i] * part : part;
      }
      clip(fresh, n);
      activations[1].apply(fresh, n);
      T* state = h + b * n;
      for (std::int64_t i = 0; i < n; ++i) {
        state[i] = (T{1} - gate[i]) * fresh[i] + gate[i] * state[i];
      }
    }
  }

  const KernelContext& k_;
  const Config& c_;
  std::int64_t batch_, input_, width_;
  std::vector<T> gates_, reset_, scaled_;
};

void check_dims(const Tensor& t, const Dims& expected, const char* what) {
  if (t.dims() != expected) {
    fail(std::string(what) + " has shape " + shape_text(t.dims()) + ", not " +
         shape_text(expected));
  }
}

// [batch, directions, hidden] or [directions, batch, hidden] as the latter.
Tensor state_to_direction_first(const Tensor& t, bool batch_first) {
  if (!batch_first) return t.clone();
  const Dims& d = t.dims();
  Tensor y = Tensor::allocate(t.dtype(), {d[1], d[0], d[2]});
  dispatch_float(t.dtype(), [&]<typename T>() {
    for (std::int64_t i = 0; i < d[0] * d[1]; ++i) {
      std::copy_n(t.data<T>() + i * d[2], d[2], y.data<T>() + (i % d[1] * d[0] + i / d[1]) * d[2]);
    }
  });
  return y;
}

template <typename T>
void run_typed(KernelContext& k, const Config& c, DType compute) {
  const Tensor x = converted(k.input(0), compute);
  const Tensor w = converted(k.input(1), compute);
  const Tensor r = converted(k.input(2), compute);
  if (x.rank() != 3 || w.rank() != 3) fail("X or W is not of rank 3");
  const std::int64_t times = x.dims()[c.batch_first ? 1 : 0];
  const std::int64_t batch = x.dims()[c.batch_first ? 0 : 1];
  const std::int64_t input = x.dims()[2];
  const std::int64_t hidden = r.dims().back();
  const std::int64_t dirs = c.directions;
  if (c.hidden != 0 && c.hidden != hidden) fail("'hidden_size' is not the weights' size");
  check_dims(w, {dirs, c.gates * hidden, input}, "W");
  check_dims(r, {dirs, c.gates * hidden, hidden}, "R");
  const auto optional = [&](std::size_t i, const Dims& dims, const char* what) {
    const Tensor* given = k.optional_input(i);
    if (given == nullptr) return Tensor();
    check_dims(*given, dims, what);
    return converted(*given, compute);
  };
  const Tensor bias = optional(3, {dirs, 2 * c.gates * hidden}, "B");
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), times);
  if (k.has_input(4)) {
    check_dims(k.input(4), {batch}, "sequence_lens");
    lengths = ints_input(k, 4);
    for (const std::int64_t n : lengths) {
      if (n < 0 || n > times) fail("a sequence length is outside the sequence");
    }
  }
  const Dims state_dims = c.batch_first ? Dims{batch, dirs, hidden} : Dims{dirs, batch, hidden};
  const auto state = [&](std::size_t i, const char* what) {
    const Tensor given = optional(i, state_dims, what);
    if (given.defined()) return state_to_direction_first(given, c.batch_first);
    Tensor zeros = allocate_checked(compute, {dirs, batch, hidden});
    std::fill_n(zeros.data<T>(), zeros.count(), T{0});
    return zeros;
  };
  const bool lstm = c.cell == Cell::kLstm;
  Tensor h = state(5, "initial_h");
  Tensor cell = lstm ? state(6, "initial_c") : Tensor();
  const Tensor peephole = lstm ? optional(7, {dirs, 3 * hidden}, "P") : Tensor();

  const DType dtype = k.input(0).dtype();
  const Dims y_dims =
      c.batch_first ? Dims{batch, times, dirs, hidden} : Dims{times, dirs, batch, hidden};
  Tensor y;
  if (k.wants_output(0)) {
    Tensor& target = k.output(0, dtype, y_dims);
    y = dtype == compute ? target : allocate_checked(compute, y_dims);
    std::fill_n(y.data<T>(), y.count(), T{0});
  }
  Config config = c;
  config.hidden = hidden;
  const std::size_t per_direction = c.activations.size() / static_cast<std::size_t>(dirs);
  std::vector<T> step_input;
  for (std::int64_t d = 0; d < dirs; ++d) {
    Runner<T> runner(k, config, batch, input);
    runner.w = w.data<T>() + d * c.gates * hidden * input;
    runner.r = r.data<T>() + d * c.gates * hidden * hidden;
    runner.bias = bias.defined() ? bias.data<T>() + d * 2 * c.gates * hidden : nullptr;
    runner.peephole = peephole.defined() ? peephole.data<T>() + d * 3 * hidden : nullptr;
    runner.h = h.data<T>() + d * batch * hidden;
    runner.c = lstm ? cell.data<T>() + d * batch * hidden : nullptr;
    runner.activations = c.activations.data() + static_cast<std::size_t>(d) * per_direction;
    const bool reverse = c.reverse || d == 1;
    for (std::int64_t s = 0; s < times; ++s) {
      std::vector<bool> active(static_cast<std::size_t>(batch));
      step_input.assign(static_cast<std::size_t>(batch * input), T{0});
      for (std::int64_t b = 0; b < batch; ++b) {
        active[b] = s < lengths[b];
        if (!active[b]) continue;
        const std::int64_t t = reverse ? lengths[b] - 1 - s : s;
        const std::int64_t row = c.batch_first ? b * times + t : t * batch + b;
        std::copy_n(x.data<T>() + row * input, input, step_input.data() + b * input);
      }
      runner.step(step_input.data(), active);
      for (std::int64_t b = 0; y.defined() && b < batch; ++b) {
        if (!active[b]) continue;
        const std::int64_t t = reverse ? lengths[b] - 1 - s : s;
        const std::int64_t row =
            c.batch_first ? (b * times + t) * dirs + d : (t * dirs + d) * batch + b;
        std::copy_n(runner.h + b * hidden, hidden, y.data<T>() + row * hidden);
      }
    }
  }
  const auto put = [&](std::size_t i, const Tensor& value) {
    if (!k.wants_output(i)) return;
    Tensor& target = k.output(i, dtype, state_dims);
    for (std::int64_t row = 0; row < dirs * batch; ++row) {
      const std::int64_t to = c.batch_first ? row % batch * dirs + row / batch : row;
      if constexpr (std::is_same_v<T, float>) {
        store_float(dtype, value.data<T>() + row * hidden, hidden, target.raw(), to * hidden);
      } else {
        store_double(dtype, value.data<T>() + row * hidden, hidden, target.raw(), to * hidden);
      }
    }
  };
  if (y.defined() && dtype != compute) {
    store_float(dtype, y.data<float>(), y.count(), k.output(0, dtype, y_dims).raw(), 0);
  }
  put(1, h);
  if (lstm) put(2, cell);
}

std::unique_ptr<Kernel> make_recurrent(const KernelCreateContext& create, Cell cell) {
  return make_kernel([config = parse_config(create.node(), cell)](KernelContext& k) {
    const DType compute = compute_dtype(k.input(0).dtype());
    dispatch_float(compute, [&]<typename T>() { run_typed<T>(k, config, compute); });
  });
}

}  // namespace

void register_recurrent_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, Cell cell) {
    registry.add(
        {.op = op,
         .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
         .create =
             [cell](const KernelCreateContext& create) { return make_recurrent(create, cell); }});
  };
  add("RNN", Cell::kRnn);
  add("GRU", Cell::kGru);
  add("LSTM", Cell::kLstm);
}

}  // namespace xrt::native
