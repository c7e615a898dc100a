// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM over the sequences of a batch, whatever their weights are made of (weights.h).
//
// Work is cut into units: some sequences in one direction. A unit needs nothing of another, so
// each has a thread and runs through all steps without waiting. Where there are fewer units than
// threads, the other threads help with the products of a unit (team.h), each with its own part of
// the weights, which may then lie in its cache. A run that is over before another thread has woken
// up stays in one; its second direction is offered to others, and the first thread goes on with it
// where they come too late.
//
// The sequences of a unit are in order of their lengths, the longest first: those that still run
// are the first so many. The products of x come first, for as many steps as fit into the cache.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <vector>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/recurrent/config.h"
#include "engines/native/kernels/recurrent/weights.h"
#include "engines/native/scratch.h"

namespace xrt::native {

// What one run reads and writes; dense memory.
template <typename T>
struct Sequences {
  std::int64_t times = 0, batch = 0, input = 0;
  Scratch<std::int64_t> lengths;     // [batch]
  const T* x = nullptr;              // [times, batch, input], or batch first
  const T* bias = nullptr;           // [directions, 2 * gates * hidden]; null: 0
  const T* peephole = nullptr;       // [directions, 3 * hidden]: i, o, f; null: 0
  T* h = nullptr;                    // [directions, batch, hidden], in and out
  T* c = nullptr;                    // likewise; LSTM only
  T* y = nullptr;                    // as the op defines it, zero behind the ends; or null
  std::optional<ByteRange> x_range;  // for weights of bytes
};

template <typename W>
class SequenceRun {
 public:
  using T = typename W::Value;

  // `input`, `recurrent`: one block per direction, or two (GRU).
  SequenceRun(KernelContext& k, const RecurrentConfig& config, const Sequences<T>& s,
              const std::vector<W>& input, const std::vector<W>& recurrent)
      : k_(k),
        config_(config),
        s_(s),
        input_(input),
        recurrent_(recurrent),
        parts_(input.size() / static_cast<std::size_t>(config.directions)),
        width_(input[0].columns() + (parts_ > 1 ? input[1].columns() : 0)) {}

  void run() {
    Scratch<std::int64_t> order(static_cast<std::size_t>(s_.batch));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return s_.lengths[a] > s_.lengths[b]; });
    const bool small = work() < kWorthSharing;
    const std::int64_t threads = k_.num_threads();
    const std::int64_t wanted =
        small || is_for_teams() ? 1 : (threads + config_.directions - 1) / config_.directions;
    const std::int64_t groups = std::clamp<std::int64_t>(wanted, 1, s_.batch);
    std::vector<Unit> units;
    for (std::int64_t d = 0; d < config_.directions; ++d) {
      for (std::int64_t g = 0; g < groups; ++g) {
        Unit unit{d, {}};
        for (std::int64_t i = g; i < s_.batch; i += groups) unit.rows.push_back(order[i]);
        units.push_back(std::move(unit));
      }
    }
    const Sizes sizes = sizes_of(static_cast<std::int64_t>(units[0].rows.size()));
    std::byte* memory = k_.scratch(sizes.all * units.size());
    const auto count = static_cast<std::int64_t>(units.size());
    if (!small && count < threads) return run_teams(units, sizes, memory);
    k_.parallel_for(count, small ? count : 1, [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end; ++begin) {
        run_unit(units[begin], sizes, part_of(memory, sizes, begin), nullptr);
      }
    });
  }

 private:
  // Of work(): one thread's 0.1 ms. Sharing less with other threads costs more than it gains.
  static constexpr std::int64_t kWorthSharing = 1 << 20;
  static constexpr std::int64_t kGateWork = 64;
  static constexpr std::int64_t kGateBytes = 512 * 1024;  // of the steps of one chunk

  // Weights of one direction that a step reads, from which on threads share them rather than the
  // sequences: they lie in no thread's cache as a whole.
  static constexpr std::int64_t kTeamBytes = 512 * 1024;
  static constexpr std::int64_t kTeamRows = 8;  // up to which products read more than they compute

  struct Unit {
    std::int64_t direction;
    Scratch<std::int64_t> rows;  // of the batch
  };

  bool is_for_teams() const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < parts_; ++i) {
      bytes += static_cast<std::int64_t>(recurrent_[i].bytes());
    }
    return bytes >= kTeamBytes && s_.batch <= kTeamRows;
  }

  // Bytes of weights that the products of all steps read. A number of the gates, with its function,
  // counts as kGateWork of them.
  std::int64_t work() const {
    const std::int64_t total =
        std::accumulate(s_.lengths.begin(), s_.lengths.end(), std::int64_t{0});
    const std::int64_t steps = *std::max_element(s_.lengths.begin(), s_.lengths.end());
    std::int64_t bytes = total * config_.directions * width_ * kGateWork;
    for (const W& w : input_) bytes += product_bytes(w.bytes(), total);
    for (const W& w : recurrent_) {
      bytes += steps * product_bytes(w.bytes(), total / std::max<std::int64_t>(steps, 1));
    }
    return bytes;
  }

  // Bytes of what one unit needs, each a multiple of a cache line.
  struct Sizes {
    std::int64_t chunk_rows = 0;
    std::size_t x = 0, gates = 0, state = 0, part = 0, bias = 0, work = 0, all = 0;
  };

  Sizes sizes_of(std::int64_t rows) const {
    const auto lines = [](std::int64_t n, std::size_t each) {
      return (static_cast<std::size_t>(n) * each + 63) / 64 * 64;
    };
    Sizes sizes;
    const std::int64_t fitting = kGateBytes / (width_ * static_cast<std::int64_t>(sizeof(T)));
    sizes.chunk_rows = std::max(
        std::clamp(fitting, std::int64_t{1}, std::max(rows * s_.times, std::int64_t{1})), rows);
    sizes.x = lines(sizes.chunk_rows * s_.input, sizeof(T));
    sizes.gates = lines(sizes.chunk_rows * width_, sizeof(T));
    sizes.state = lines(rows * config_.hidden, sizeof(T));
    sizes.part = parts_ > 1 ? lines(rows * recurrent_[1].columns(), sizeof(T)) : 0;
    sizes.bias = lines(2 * width_, sizeof(T));
    for (const W& w : input_)
      sizes.work =
          std::max(sizes.work, lines(static_cast<std::int64_t>(w.workspace(sizes.chunk_rows)), 1));
    for (const W& w : recurrent_)
      sizes.work = std::max(sizes.work, lines(static_cast<std::int64_t>(w.workspace(rows)), 1));
    // h, c and h as the reset gate leaves it.
    sizes.all = sizes.x + sizes.gates + 3 * sizes.state + sizes.part + sizes.bias + sizes.work;
    return sizes;
  }

  static std::byte* part_of(std::byte* memory, const Sizes& sizes, std::int64_t unit) {
    return memory + static_cast<std::size_t>(unit) * sizes.all;
  }

  // Each thread takes a seat. The first ones lead a unit each, those that come later help one.
  void run_teams(const std::vector<Unit>& units, const Sizes& sizes, std::byte* memory) {
    const auto count = static_cast<std::int64_t>(units.size());
    const std::int64_t threads = k_.num_threads();
    std::deque<Team> teams;
    for (std::int64_t u = 0; u < count; ++u) {
      teams.emplace_back(static_cast<int>((threads - u + count - 1) / count));
    }
    std::atomic<std::int64_t> next = 0;
    k_.parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end; ++begin) {
        const std::int64_t seat = next++;
        const std::int64_t u = seat % count;
        if (seat >= count) {
          teams[u].help(static_cast<int>(seat / count));
          continue;
        }
        const Team::Lead lead(teams[u]);
        run_unit(units[u], sizes, part_of(memory, sizes, u), &teams[u]);
      }
    });
  }

  // Where one unit stands.
  struct Steps {
    T *x, *gates, *h, *c, *scaled, *part, *bias;
    ProductWhere where;
    const T* peephole;
    const Activation* functions;
    const W* input;
    const W* recurrent;
  };

  void run_unit(const Unit& unit, const Sizes& sizes, std::byte* memory, Team* team) {
    const auto take = [&](std::size_t bytes) {
      std::byte* at = memory;
      memory += bytes;
      return reinterpret_cast<T*>(at);
    };
    const std::int64_t n = config_.hidden;
    const std::int64_t d = unit.direction;
    const std::size_t functions =
        config_.activations.size() / static_cast<std::size_t>(config_.directions);
    const std::size_t part = static_cast<std::size_t>(d) * parts_;
    Steps at{};
    at.x = take(sizes.x);
    at.gates = take(sizes.gates);
    at.h = take(sizes.state);
    at.c = take(sizes.state);
    at.scaled = take(sizes.state);
    at.part = take(sizes.part);
    at.bias = take(sizes.bias);
    at.where = {reinterpret_cast<std::byte*>(take(sizes.work)), team, nullptr};
    at.peephole = s_.peephole != nullptr ? s_.peephole + d * 3 * n : nullptr;
    at.functions = config_.activations.data() + static_cast<std::size_t>(d) * functions;
    at.input = input_.data() + part;
    at.recurrent = recurrent_.data() + part;
    set_bias(at, d);

    const auto rows = static_cast<std::int64_t>(unit.rows.size());
    const std::int64_t longest = s_.lengths[unit.rows[0]];
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t from = (d * s_.batch + unit.rows[r]) * n;
      std::copy_n(s_.h + from, n, at.h + r * n);
      if (s_.c != nullptr) std::copy_n(s_.c + from, n, at.c + r * n);
    }
    // How many sequences have a step `s`, given that so many had the one before.
    const auto running = [&](std::int64_t s, std::int64_t before) {
      while (before > 0 && s_.lengths[unit.rows[before - 1]] <= s) --before;
      return before;
    };
    const auto time_of = [&](std::int64_t r, std::int64_t s) {
      const bool reverse = config_.reverse || d == 1;
      return reverse ? s_.lengths[unit.rows[r]] - 1 - s : s;
    };
    std::int64_t active = rows;
    for (std::int64_t first = 0; first < longest;) {
      std::int64_t next = first, count = 0;
      for (std::int64_t left = active; next < longest; ++next) {
        left = running(next, left);
        if (count + left > sizes.chunk_rows) break;
        for (std::int64_t r = 0; r < left; ++r, ++count) {
          const std::int64_t b = unit.rows[r];
          const std::int64_t t = time_of(r, next);
          const std::int64_t row = config_.batch_first ? b * s_.times + t : t * s_.batch + b;
          std::copy_n(s_.x + row * s_.input, s_.input, at.x + count * s_.input);
        }
      }
      project_inputs(at, count);
      T* gates = at.gates;
      for (std::int64_t s = first; s < next; ++s) {
        WorkScope::check_time();
        active = running(s, active);
        step(at, gates, active);
        gates += active * width_;
        for (std::int64_t r = 0; s_.y != nullptr && r < active; ++r) {
          const std::int64_t b = unit.rows[r];
          const std::int64_t t = time_of(r, s);
          const std::int64_t row = config_.batch_first
                                       ? (b * s_.times + t) * config_.directions + d
                                       : (t * config_.directions + d) * s_.batch + b;
          std::copy_n(at.h + r * n, n, s_.y + row * n);
        }
      }
      first = next;
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t to = (d * s_.batch + unit.rows[r]) * n;
      std::copy_n(at.h + r * n, n, s_.h + to);
      if (s_.c != nullptr) std::copy_n(at.c + r * n, n, s_.c + to);
      if (s_.lengths[unit.rows[r]] > 0) continue;
      // The standard does not say what a sequence without elements ends with; ONNX Runtime and
      // OpenVINO give 0.
      std::fill_n(s_.h + to, n, T{0});
      if (s_.c != nullptr) std::fill_n(s_.c + to, n, T{0});
    }
  }

  // What the gates begin with, and behind it what the second part begins with.
  void set_bias(const Steps& at, std::int64_t d) const {
    std::fill_n(at.bias, 2 * width_, T{0});
    if (s_.bias == nullptr) return;
    const std::int64_t n = config_.hidden;
    const std::int64_t all = config_.gates * n;
    const T* of_input = s_.bias + d * 2 * all;
    const T* of_state = of_input + all;
    const std::int64_t together = parts_ > 1 ? all - n : all;
    for (std::int64_t i = 0; i < together; ++i) at.bias[i] = of_input[i] + of_state[i];
    if (parts_ == 1) return;
    std::copy_n(of_input + together, n, at.bias + at.input[0].columns());
    std::copy_n(of_state + together, n, at.bias + width_);
  }

  void project_inputs(const Steps& at, std::int64_t rows) const {
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(at.bias, width_, at.gates + r * width_);
    ProductWhere where = at.where;
    where.range = s_.x_range ? &*s_.x_range : nullptr;
    at.input[0].multiply(at.x, rows, at.gates, width_, where);
    if (parts_ > 1) {
      at.input[1].multiply(at.x, rows, at.gates + at.input[0].columns(), width_, where);
    }
  }

  void step(const Steps& at, T* gates, std::int64_t rows) const {
    at.recurrent[0].multiply(at.h, rows, gates, width_, at.where);
    if (config_.cell == Cell::kGru) return gru(at, gates, rows);
    const std::int64_t n = config_.hidden;
    for (std::int64_t r = 0; r < rows; ++r) {
      T* gate = gates + r * width_;
      if (config_.cell == Cell::kLstm) {
        lstm(at, gate, at.h + r * n, at.c + r * n);
      } else {
        clip(gate, n);
        at.functions[0].apply(gate, n);
        std::copy_n(gate, n, at.h + r * n);
      }
    }
  }

  void clip(T* x, std::int64_t n) const {
    if (config_.clip <= 0) return;
    const T limit = static_cast<T>(config_.clip);
    for (std::int64_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], -limit, limit);
  }

  void lstm(const Steps& at, T* gate, T* h, T* cell) const {
    const std::int64_t n = config_.hidden;
    T* in = gate;
    T* out = gate + n;
    T* forget = gate + 2 * n;
    T* fresh = gate + 3 * n;
    const T* peephole = at.peephole;
    if (peephole != nullptr) {
      for (std::int64_t i = 0; i < n; ++i) {
        in[i] += peephole[i] * cell[i];
        forget[i] += peephole[2 * n + i] * cell[i];
      }
    }
    clip(in, n);
    clip(forget, 2 * n);  // forget and fresh
    at.functions[0].apply(in, n);
    at.functions[0].apply(forget, n);
    at.functions[1].apply(fresh, n);
    for (std::int64_t i = 0; i < n; ++i) {
      const T keep = config_.input_forget ? T{1} - in[i] : forget[i];
      cell[i] = keep * cell[i] + in[i] * fresh[i];
      if (peephole != nullptr) out[i] += peephole[n + i] * cell[i];
    }
    clip(out, n);
    at.functions[0].apply(out, n);
    std::copy_n(cell, n, fresh);
    at.functions[2].apply(fresh, n);
    for (std::int64_t i = 0; i < n; ++i) h[i] = out[i] * fresh[i];
  }

  void gru(const Steps& at, T* gates, std::int64_t rows) const {
    const std::int64_t n = config_.hidden;
    const std::int64_t fresh_at = at.input[0].columns();
    const std::int64_t part_step = at.recurrent[1].columns();
    for (std::int64_t r = 0; r < rows; ++r) {
      T* gate = gates + r * width_;
      clip(gate, 2 * n);
      at.functions[0].apply(gate, 2 * n);  // update and reset
      std::copy_n(at.bias + width_, part_step, at.part + r * part_step);
      for (std::int64_t i = 0; !config_.linear_before_reset && i < n; ++i) {
        at.scaled[r * n + i] = at.h[r * n + i] * gate[n + i];
      }
    }
    // The hidden gate's recurrent part.
    at.recurrent[1].multiply(config_.linear_before_reset ? at.h : at.scaled, rows, at.part,
                             part_step, at.where);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* gate = gates + r * width_;
      T* fresh = gates + r * width_ + fresh_at;
      const T* part = at.part + r * part_step;
      for (std::int64_t i = 0; i < n; ++i) {
        fresh[i] += config_.linear_before_reset ? gate[n + i] * part[i] : part[i];
      }
      clip(fresh, n);
      at.functions[1].apply(fresh, n);
      T* h = at.h + r * n;
      for (std::int64_t i = 0; i < n; ++i) h[i] = (T{1} - gate[i]) * fresh[i] + gate[i] * h[i];
    }
  }

  KernelContext& k_;
  const RecurrentConfig& config_;
  const Sequences<T>& s_;
  const std::vector<W>& input_;
  const std::vector<W>& recurrent_;
  std::size_t parts_;
  std::int64_t width_;  // of the gates of one row
};

}  // namespace xrt::native
