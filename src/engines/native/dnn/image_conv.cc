// SPDX-License-Identifier: Apache-2.0
// The convolution at the head of a network for images: it reads the image as it is given, plane by
// plane, and writes channels-last memory. oneDNN wants the image with its channels last, and with
// three of them its vectors are mostly empty.
//
// Op "ImageConv" of domain kDomain: inputs X (batch, channels, height, width), W and B (may be left
// out), which are constants; the attributes of Conv without group and dilations; `low` and `high`
// bound the result. Y is stored as (batch, height, width, channels).
#include <algorithm>
#include <limits>
#include <vector>

#include "engines/native/context.h"
#include "engines/native/dnn/families.h"
#include "engines/native/dnn/fuse/optimize.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/window.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "ir/attributes.h"
#include "ops/sizes/wide_window.h"

namespace xrt::native::dnn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kMostPlanes = 4;
// Channels that the inner loop takes at a time, on any machine.
constexpr std::int64_t kChannels = 16;

class ImageConvKernel final : public Kernel {
 public:
  explicit ImageConvKernel(const KernelCreateContext& context)
      : attributes_(WindowAttributes::of(context.node())),
        low_(context.node().attr_float("low", -kInfinity)),
        high_(context.node().attr_float("high", kInfinity)) {
    const Tensor w = converted(*context.constant_input(1), DType::kFloat32);
    const Dims& d = w.dims();
    channels_ = d[0];
    planes_ = d[1];
    window_ = {d[2], d[3]};
    const std::int64_t taps = d[1] * d[2] * d[3];
    weights_.resize(static_cast<std::size_t>(channels_ * taps));
    for (std::int64_t c = 0; c < channels_; ++c) {
      for (std::int64_t t = 0; t < taps; ++t) {
        weights_[static_cast<std::size_t>(t * channels_ + c)] = w.data<float>()[c * taps + t];
      }
    }
    bias_.assign(static_cast<std::size_t>(channels_), 0.0F);
    if (const Tensor* b = context.constant_input(2)) {
      std::copy_n(b->data<float>(), channels_, bias_.begin());
    }
  }

  void run(KernelContext& k) const override {
    const Tensor& x = k.input(0);
    const Dims& d = x.dims();
    if (d.size() != 4 || d[1] != planes_) {
      throw Error(ErrorCode::kInvalidArgument,
                  "X is " + to_string(d) + ", W has " + std::to_string(planes_) + " channels");
    }
    const Window window = resolve(attributes_, {d[2], d[3]}, window_);
    const std::int64_t rows = window.output[0];
    Tensor& y = k.output(0, DType::kFloat32, {d[0], rows, window.output[1], channels_});
    if (y.count() == 0) return;
    const std::int64_t work = window.output[1] * channels_ * planes_ * window_[0] * window_[1];
    constexpr std::int64_t kEnough = 1 << 16;  // multiplications that are worth another thread
    k.parallel_for(
        d[0] * rows, std::max<std::int64_t>(kEnough / work, 1),
        [&](std::int64_t begin, std::int64_t end) { Rows(*this, window, x, y).run(begin, end); });
  }

  std::size_t weight_bytes() const override {
    return (weights_.size() + bias_.size()) * sizeof(float);
  }
  std::string describe() const override { return "image rows"; }

 private:
  // Some rows of the result, in one thread.
  class Rows {
   public:
    Rows(const ImageConvKernel& kernel, const Window& window, const Tensor& x, Tensor& y)
        : kernel_(kernel),
          window_(window),
          x_(x.data<float>()),
          height_(x.dims()[2]),
          width_(x.dims()[3]),
          padded_(width_ + window.pads_begin[1] + window.pads_end[1]),
          lines_(kernel.planes_ * kernel.window_[0]),
          y_(y.data<float>()) {
      lines_of_x_.resize(static_cast<std::size_t>(lines_));
      // Lines with nothing on their left and right are read where they are.
      const auto slots = static_cast<std::size_t>(padded_ == width_ ? 1 : lines_ + 1);
      copies_.assign(slots * static_cast<std::size_t>(padded_), 0.0F);
    }

    void run(std::int64_t begin, std::int64_t end) {
      VectorOps::ImageRow row{
          .x = lines_of_x_.data(),
          .lines = lines_,
          .width = kernel_.window_[1],
          .stride = window_.strides[1],
          .weights = kernel_.weights_.data(),
          .bias = kernel_.bias_.data(),
          .channels = kernel_.channels_,
          .pixels = window_.output[1],
          .low = kernel_.low_,
          .high = kernel_.high_,
          .y = nullptr,
      };
      for (std::int64_t i = begin; i < end; ++i) {
        find_lines(i / window_.output[0], i % window_.output[0]);
        row.y = y_ + i * row.pixels * row.channels;
        vector_ops().image_row(row);
      }
    }

   private:
    // What the window sees at a row of the result.
    void find_lines(std::int64_t image, std::int64_t at) {
      const std::int64_t top = at * window_.strides[0] - window_.pads_begin[0];
      float* copy = copies_.data();  // the first is zero and stays so
      for (std::int64_t l = 0; l < lines_; ++l) {
        const std::int64_t plane = l / kernel_.window_[0];
        const std::int64_t from = top + l % kernel_.window_[0];
        const float*& line = lines_of_x_[static_cast<std::size_t>(l)];
        if (from < 0 || from >= height_) {
          line = copies_.data();
          continue;
        }
        line = x_ + ((image * kernel_.planes_ + plane) * height_ + from) * width_;
        if (padded_ == width_) continue;
        copy += padded_;
        std::copy_n(line, width_, copy + window_.pads_begin[1]);
        line = copy;
      }
    }

    const ImageConvKernel& kernel_;
    const Window& window_;
    const float* x_;
    std::int64_t height_, width_, padded_, lines_;
    float* y_;
    std::vector<const float*> lines_of_x_;
    std::vector<float> copies_;
  };

  WindowAttributes attributes_;
  float low_, high_;
  std::int64_t channels_ = 0, planes_ = 0;
  Dims window_;
  std::vector<float> weights_;  // (planes, height, width, channels)
  std::vector<float> bias_;
};

bool all(const std::vector<std::int64_t>& values, bool (*holds)(std::int64_t)) {
  return std::all_of(values.begin(), values.end(), holds);
}

}  // namespace

std::optional<Attributes> image_convolution(const Graph& graph, const Node& conv) {
  const Tensor* w = graph.constant(conv.input(1));
  const Tensor* b = graph.constant(conv.input(2));
  if (w == nullptr || w->rank() != 4 || w->count() == 0 || w->dims()[0] % kChannels != 0 ||
      w->dims()[1] > kMostPlanes ||
      (conv.input(2).valid() &&
       (b == nullptr || b->dtype() != DType::kFloat32 || b->count() != w->dims()[0])) ||
      conv.inputs.size() > 3 || need_int(conv, "group") != 1 || is_oversized_window(conv) ||
      !is_dense_window(conv) ||
      !all(conv.attr_ints("pads"), [](std::int64_t p) { return p >= 0; }) ||
      graph.type(conv.inputs[0]).dtype != DType::kFloat32) {
    return std::nullopt;
  }
  const Shape& x = *graph.type(conv.inputs[0]).shape;
  if (x.size() != 4 || x[1] != Dim(w->dims()[1])) return std::nullopt;
  Attributes attributes;
  for (const char* name : {"kernel_shape", "strides", "pads", "auto_pad"}) {
    if (const auto found = conv.attributes.find(name); found != conv.attributes.end()) {
      attributes.insert(*found);
    }
  }
  const std::vector<PostOp> post_ops = read_post_ops(conv);
  if (post_ops.size() > 1) return std::nullopt;
  if (!post_ops.empty()) {
    const PostOp& op = post_ops[0];
    const bool relu = op.op == "Relu";
    if (!relu && op.op != "Clip") return std::nullopt;
    attributes["low"] = relu ? 0.0F : op.alpha;
    attributes["high"] = relu ? kInfinity : op.beta;
  }
  return attributes;
}

void register_image_conv(KernelRegistry& registry) {
  registry.add({.domain = std::string(kDomain),
                .op = "ImageConv",
                .create = [](const KernelCreateContext& c) -> std::unique_ptr<Kernel> {
                  return std::make_unique<ImageConvKernel>(c);
                }});
}

}  // namespace xrt::native::dnn
