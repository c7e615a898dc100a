// SPDX-License-Identifier: Apache-2.0
// ONNX's optimizers (ai.onnx.preview.training): Momentum, Adagrad, Adam. Each updates any number of
// tensors; inputs and outputs are grouped by kind, not by tensor.
#include <cmath>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/register.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

double scalar(const KernelContext& k, std::size_t i) {
  double value = 0;
  if (k.input(i).count() != 1) fail("the rate or the update count is not a scalar");
  load_double(k.input(i).dtype(), k.input(i).raw(), 0, 1, &value);
  return value;
}

// What one element is updated from and to.
struct Element {
  double x, gradient;
  double state[2];
};

// Inputs: rate, count, then `groups` groups of tensors: X, G and the states. Outputs: X and the
// states. update(element) changes x and the states.
template <typename Update>
void update_all(KernelContext& k, std::size_t groups, Update&& update) {
  if ((k.input_count() - 2) % groups != 0) fail("the inputs do not make up whole groups");
  const std::size_t tensors = (k.input_count() - 2) / groups;
  for (std::size_t t = 0; t < tensors; ++t) {
    const Tensor& x = k.input(2 + t);
    std::vector<Tensor*> outputs;
    for (std::size_t g = 0; g < groups; ++g) {
      if (k.input(2 + g * tensors + t).dims() != x.dims()) fail("the shapes differ");
      if (g + 1 < groups) outputs.push_back(&k.output(g * tensors + t, x.dtype(), x.dims()));
    }
    k.parallel_for(x.count(), 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Element e{};
        double* const fields[] = {&e.x, &e.gradient, &e.state[0], &e.state[1]};
        for (std::size_t g = 0; g < groups; ++g) {
          const Tensor& in = k.input(2 + g * tensors + t);
          load_double(in.dtype(), in.raw(), i, 1, fields[g]);
        }
        update(e);
        store_double(x.dtype(), &e.x, 1, outputs[0]->raw(), i);
        for (std::size_t s = 0; s + 2 < groups; ++s) {
          store_double(x.dtype(), &e.state[s], 1, outputs[s + 1]->raw(), i);
        }
      }
    });
  }
}

Created create_momentum(const KernelCreateContext& create) {
  const Node& node = create.node();
  const double alpha = need_float(node, "alpha");
  const double beta = need_float(node, "beta");
  const double decay = need_float(node, "norm_coefficient");
  const std::string mode = need_string(node, "mode");
  if (mode != "standard" && mode != "nesterov") fail("mode '" + mode + "' is not known");
  const bool nesterov = mode == "nesterov";
  return make_kernel(
      [=](KernelContext& k) {
        const double rate = scalar(k, 0);
        const double weight = scalar(k, 1) > 0 ? beta : 1.0;
        update_all(k, 3, [=](Element& e) {
          const double gradient = decay * e.x + e.gradient;
          e.state[0] = alpha * e.state[0] + weight * gradient;
          e.x -= rate * (nesterov ? gradient + alpha * e.state[0] : e.state[0]);
        });
      },
      {.overwrites = true});
}

Created create_adagrad(const KernelCreateContext& create) {
  const Node& node = create.node();
  const double decay_factor = need_float(node, "decay_factor");
  const double epsilon = need_float(node, "epsilon");
  const double decay = need_float(node, "norm_coefficient");
  return make_kernel(
      [=](KernelContext& k) {
        const double rate = scalar(k, 0) / (1 + scalar(k, 1) * decay_factor);
        update_all(k, 3, [=](Element& e) {
          const double gradient = decay * e.x + e.gradient;
          e.state[0] += gradient * gradient;
          e.x -= rate * gradient / (std::sqrt(e.state[0]) + epsilon);
        });
      },
      {.overwrites = true});
}

Created create_adam(const KernelCreateContext& create) {
  const Node& node = create.node();
  const double alpha = need_float(node, "alpha");
  const double beta = need_float(node, "beta");
  const double epsilon = need_float(node, "epsilon");
  const double decay = need_float(node, "norm_coefficient");
  const double decay_post = need_float(node, "norm_coefficient_post");
  return make_kernel(
      [=](KernelContext& k) {
        const double count = scalar(k, 1);
        double rate = scalar(k, 0);
        if (count > 0) rate *= std::sqrt(1 - std::pow(beta, count)) / (1 - std::pow(alpha, count));
        update_all(k, 4, [=](Element& e) {
          const double gradient = decay * e.x + e.gradient;
          e.state[0] = alpha * e.state[0] + (1 - alpha) * gradient;
          e.state[1] = beta * e.state[1] + (1 - beta) * gradient * gradient;
          e.x = (1 - decay_post) * (e.x - rate * e.state[0] / (std::sqrt(e.state[1]) + epsilon));
        });
      },
      {.overwrites = true});
}

}  // namespace

void register_optimizer_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, auto create) {
    registry.add({.domain = "ai.onnx.preview.training",
                  .op = op,
                  .supports = [](const NodeView& n) { return n.check_input(2, kFloatTypes); },
                  .create = create});
  };
  add("Momentum", create_momentum);
  add("Adagrad", create_adagrad);
  add("Adam", create_adam);
}

}  // namespace xrt::native
