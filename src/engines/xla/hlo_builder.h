// SPDX-License-Identifier: Apache-2.0
// Writes one StableHLO module as text (https://openxla.org/stablehlo/spec), op by op.
//
//   HloBuilder b;
//   Hlo x = b.parameter(DType::kFloat32, {2, 3});
//   Hlo y = b.binary("add", x, b.splat(1.0, x.dtype, x.dims));
//   std::string module = b.finish({y});
//
// Every value has a static shape and an element type; the builder works out result shapes, so a
// lowering that would make an ill-typed op is caught here before XLA sees it, and the node refused.
// Bytes of weights stay out of the text: constant() turns a tensor above kInlineBytes into a
// parameter that the executable feeds.
//
// Not thread-safe: one builder belongs to one compilation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "xrt/dtype.h"
#include "xrt/tensor.h"

namespace xrt::xla {

// A value of the module.
struct Hlo {
  std::int32_t id = -1;
  DType dtype = DType::kUndefined;
  Dims dims;
  // How often XLA would compile what makes the value into a loop that reads it: once more for each
  // operand of a concatenation. Nested ones multiply.
  std::int64_t copies = 1;

  bool valid() const { return id >= 0; }
  std::int64_t rank() const { return static_cast<std::int64_t>(dims.size()); }
};

using Hlos = std::vector<Hlo>;
using Pads = std::vector<std::pair<std::int64_t, std::int64_t>>;  // (low, high) per dimension

// "f32", "ui8", "i1", …; empty for a dtype that StableHLO does not have.
std::string_view hlo_element_type(DType dtype);
// "tensor<2x3xf32>"
std::string hlo_type(DType dtype, const Dims& dims);

// One parameter of @main that is not an entry of the function: a weight.
struct HloWeight {
  DType dtype;
  Dims dims;
  std::function<Tensor()> make;  // its bytes, made when an executable is
};

struct ConvolutionSpec {
  std::string input;   // one letter per dimension of the input: b, f, then 0, 1, … e.g. "b01f"
  std::string kernel;  // o, i, 0, 1, …
  std::string output;  // b, f, 0, 1, …
  Dims strides;
  Pads pads;
  Dims input_dilation;
  Dims kernel_dilation;
  std::int64_t groups = 1;
};

struct GatherSpec {
  Dims offset_dims;
  Dims collapsed_slice_dims;
  Dims operand_batching_dims;
  Dims start_indices_batching_dims;
  Dims start_index_map;
  std::int64_t index_vector_dim = 0;
  Dims slice_sizes;
};

struct ScatterSpec {
  Dims update_window_dims;
  Dims inserted_window_dims;
  Dims scatter_dims_to_operand_dims;
  std::int64_t index_vector_dim = 0;
};

// How sums of products are computed, on devices that have units of their own for them.
struct Products {
  bool narrow = false;  // of float16 and bfloat16 as they are, with float32 sums inside
  bool tf32 = false;    // factors of float32 may lose all but 10 bits of their fraction
};

class HloBuilder {
 public:
  // Tensors of at most this many bytes are written into the text.
  static constexpr std::size_t kInlineBytes = 1024;

  // `measure_only`: the text is not kept; a dry run that finds out what can be lowered.
  explicit HloBuilder(bool measure_only = false, Products products = {})
      : measure_only_(measure_only), products_(products) {}

  // --- module ---------------------------------------------------------------------------------
  // Entry parameters come first and in order; `aliased_output` >= 0 donates the parameter to that
  // result.
  Hlo parameter(DType dtype, const Dims& dims, std::int64_t aliased_output = -1);
  // A weight: `key` tells weights apart, equal keys give one parameter.
  Hlo weight(const std::string& key, DType dtype, const Dims& dims, std::function<Tensor()> make);
  const std::vector<HloWeight>& weights() const { return weights_; }
  // Ends the module: @main returns `results`.
  std::string finish(const Hlos& results);

  // --- constants ------------------------------------------------------------------------------
  Hlo constant(const Tensor& tensor);
  Hlo scalar(double value, DType dtype);
  Hlo splat(double value, DType dtype, const Dims& dims);
  Hlo integers(std::span<const std::int64_t> values, DType dtype = DType::kInt64);  // rank 1
  Hlo zeros_like(const Hlo& x) { return splat(0, x.dtype, x.dims); }
  Hlo iota(DType dtype, const Dims& dims, std::int64_t axis);

  // --- elementwise ----------------------------------------------------------------------------
  // `op` is StableHLO's, or one of CHLO's, then with its prefix: "chlo.erf".
  Hlo unary(std::string_view op, const Hlo& x);
  Hlo binary(std::string_view op, const Hlo& a, const Hlo& b);
  // `direction`: EQ, NE, GE, GT, LE, LT. `total_order` puts NaN above all (floats only).
  Hlo compare(std::string_view direction, const Hlo& a, const Hlo& b, bool total_order = false);
  Hlo select(const Hlo& predicate, const Hlo& on_true, const Hlo& on_false);
  Hlo convert(const Hlo& x, DType dtype);
  Hlo bitcast(const Hlo& x, DType dtype);  // of the same width
  Hlo is_finite(const Hlo& x);
  // x, but not before `token` is there.
  Hlo after(const Hlo& x, const Hlo& token);
  // x, made before what reads it begins.
  Hlo materialize(const Hlo& x);
  Hlo complex(const Hlo& real, const Hlo& imag);
  Hlo real(const Hlo& x);
  Hlo imag(const Hlo& x);

  Hlo add(const Hlo& a, const Hlo& b) { return binary("add", a, b); }
  Hlo sub(const Hlo& a, const Hlo& b) { return binary("subtract", a, b); }
  Hlo mul(const Hlo& a, const Hlo& b) { return binary("multiply", a, b); }
  Hlo div(const Hlo& a, const Hlo& b) { return binary("divide", a, b); }
  Hlo maximum(const Hlo& a, const Hlo& b) { return binary("maximum", a, b); }
  Hlo minimum(const Hlo& a, const Hlo& b) { return binary("minimum", a, b); }
  // The second operand is a number of the first one's type.
  Hlo binary_scalar(std::string_view op, const Hlo& a, double value) {
    return binary(op, a, splat(value, a.dtype, a.dims));
  }

  // --- shape ----------------------------------------------------------------------------------
  Hlo reshape(const Hlo& x, const Dims& dims);
  Hlo transpose(const Hlo& x, const Dims& permutation);
  // Result dimension dims_map[i] is the operand's dimension i.
  Hlo broadcast_in_dim(const Hlo& x, const Dims& dims, const Dims& dims_map);
  Hlo broadcast_to(const Hlo& x, const Dims& dims);  // NumPy's rules
  Hlo slice(const Hlo& x, const Dims& starts, const Dims& limits, const Dims& strides = {});
  // One axis only.
  Hlo slice_axis(const Hlo& x, std::int64_t axis, std::int64_t start, std::int64_t limit);
  Hlo pad(const Hlo& x, const Hlo& value, const Dims& low, const Dims& high,
          const Dims& interior = {});
  Hlo concatenate(const Hlos& parts, std::int64_t axis);
  Hlo reverse(const Hlo& x, const Dims& axes);
  Hlo dynamic_slice(const Hlo& x, const Hlos& starts, const Dims& sizes);
  Hlo dynamic_update_slice(const Hlo& x, const Hlo& update, const Hlos& starts);
  Hlo gather(const Hlo& operand, const Hlo& indices, const GatherSpec& spec);

  // --- contractions and windows ---------------------------------------------------------------
  Hlo dot_general(const Hlo& a, const Hlo& b, const Dims& batch_a, const Dims& batch_b,
                  const Dims& contract_a, const Dims& contract_b, DType result);
  // [m,k] x [k,n], of any equal leading dimensions.
  Hlo matmul(const Hlo& a, const Hlo& b, DType result);
  Hlo convolution(const Hlo& x, const Hlo& kernel, const ConvolutionSpec& spec, DType result);
  // `op` combines two scalars: "add", "multiply", "maximum", "minimum", "and", "or".
  Hlo reduce(const Hlo& x, std::string_view op, const Dims& axes);  // from op's neutral element
  Hlo reduce_window(const Hlo& x, std::string_view op, const Dims& window, const Dims& strides,
                    const Dims& dilations, const Pads& pads);
  // A reduction of several arrays at once: `combine` takes accumulators, then elements.
  Hlos reduce_many(const Hlos& xs, const Hlos& inits, const Dims& axes,
                   const std::function<Hlos(const Hlos&)>& combine);
  Hlos reduce_window_many(const Hlos& xs, const Hlos& inits, const Dims& window,
                          const Dims& strides, const Dims& dilations, const Pads& pads,
                          const std::function<Hlos(const Hlos&)>& combine);
  // `combine` gets (old, update) scalars; an empty one assigns.
  Hlo scatter(const Hlo& operand, const Hlo& indices, const Hlo& updates, const ScatterSpec& spec,
              std::string_view combine = {});
  // `before` gets (a0, b0, a1, b1, …) and says whether a goes first. Stable.
  Hlos sort(const Hlos& xs, std::int64_t axis, const std::function<Hlo(const Hlos&)>& before);
  Hlo fft(const Hlo& x, std::string_view kind, const Dims& lengths);
  // The neutral element of a reduction.
  Hlo neutral(std::string_view op, DType dtype);

  // --- control --------------------------------------------------------------------------------
  Hlos while_loop(const Hlos& init, const std::function<Hlo(const Hlos&)>& condition,
                  const std::function<Hlos(const Hlos&)>& body);
  Hlos if_else(const Hlo& predicate, const std::function<Hlos()>& then_branch,
               const std::function<Hlos()>& else_branch);

  // Calls a function of `functions`, the text of func.func's whose names no other text has.
  Hlos call(std::string functions, std::string_view name, const Hlos& operands,
            const std::vector<std::pair<DType, Dims>>& results);
  // A number that no other call of this gave: for names.
  std::int32_t unique() { return next_id_++; }

  // How many regions (bodies of loops and branches) surround what is written next: what is made
  // inside one is not visible after it.
  std::size_t region_depth() const { return region_depth_; }

 private:
  Hlo make(DType dtype, Dims dims);
  // "%v1 = "stablehlo.<op>"(%v0) <attributes> : (types) -> type"
  Hlo emit(std::string_view op, const Hlos& operands, std::string_view attributes, DType dtype,
           Dims dims);
  Hlos emit_many(std::string_view op, const Hlos& operands, std::string_view attributes,
                 std::string_view regions, const std::vector<std::pair<DType, Dims>>& results);
  // The text of a region: block arguments of these types, ops of `body`, a return.
  std::string region(const std::vector<std::pair<DType, Dims>>& arguments,
                     const std::function<Hlos(const Hlos&)>& body);
  std::string combiner(std::string_view op, DType dtype);
  void line(std::string_view text);
  // What two operands were before both were widened to float32, if products are to take that.
  std::optional<std::pair<Hlo, Hlo>> narrow(const Hlo& a, const Hlo& b) const;
  std::string precision() const;

  bool measure_only_;
  Products products_;
  std::map<std::int32_t, Hlo> widened_;  // 16-bit floats by the id of their float32 form
  std::int32_t next_id_ = 0;
  std::string body_;
  std::string functions_;                // beside @main
  std::vector<std::string> parameters_;  // "%v0: tensor<…> {attributes}"
  std::vector<std::string> weight_parameters_;
  std::vector<HloWeight> weights_;
  std::map<std::string, Hlo> weights_by_key_;
  std::size_t region_depth_ = 0;
  std::map<std::tuple<std::string, DType>, Hlo> scalars_;  // outside regions
};

}  // namespace xrt::xla
