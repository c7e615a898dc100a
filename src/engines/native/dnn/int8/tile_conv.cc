// SPDX-License-Identifier: Apache-2.0
// Conv on bytes (int8.h) by the loops of kernels/vector/byte_tiles.h. X and Y have the channels
// last. A pixel of the result is a row of the product: what the window sees of one row of X is
// consecutive in memory. Where X has a border it is copied with it, filled with X's zero point.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "engines/native/context.h"
#include "engines/native/dnn/families.h"
#include "engines/native/dnn/int8/int8.h"
#include "engines/native/dnn/int8/tiles.h"
#include "engines/native/kernels/common/window.h"
#include "ir/attributes.h"

namespace xrt::native::dnn {
namespace {

using Box = std::array<std::int64_t, 3>;  // of the spatial dimensions, ones in front

Box box_of(const Dims& spatial, std::int64_t fill) {
  Box box{fill, fill, fill};
  std::copy(spatial.begin(), spatial.end(),
            box.end() - static_cast<std::ptrdiff_t>(spatial.size()));
  return box;
}

std::int64_t product(const Box& box) { return box[0] * box[1] * box[2]; }

// The window over W's spatial dimensions, in pieces that are consecutive in memory.
struct Pieces {
  Box kernel;
  bool depthwise = false;
  bool whole_rows = false;  // a row of the window, with all channels, is one piece
  std::int64_t runs = 0, length = 0;

  Pieces(const Node& node, const Dims& w) {
    const std::int64_t group = need_int(node, "group");
    kernel = box_of(Dims(w.begin() + 2, w.end()), 1);
    const std::vector<std::int64_t> dilations = node.attr_ints("dilations");
    depthwise = group > 1 && w[1] == 1 && w[0] == group;
    whole_rows = group == 1 && (kernel[2] == 1 || dilations.empty() || dilations.back() == 1);
    runs = whole_rows ? kernel[0] * kernel[1] : product(kernel);
    length = whole_rows ? kernel[2] * w[1] : w[1];
  }
};

TileMatrix matrix_of(const Node& node, const Tensor& w) {
  const Pieces pieces(node, w.dims());
  const std::int64_t inner = w.dims()[1];
  const std::int64_t taps = product(pieces.kernel);
  return {
      .data = w.data<std::int8_t>(),
      .groups = pieces.depthwise ? 1 : need_int(node, "group"),
      .columns = w.dims()[0],
      .runs = pieces.runs,
      .length = pieces.length,
      .depthwise = pieces.depthwise,
      .column_step = inner * taps,
      .run_step = pieces.whole_rows ? pieces.kernel[2] : 1,
      .inner = inner,
      .outer_step = 1,
      .inner_step = taps,
  };
}

class TileConvKernel final : public Kernel {
 public:
  explicit TileConvKernel(const KernelCreateContext& context)
      : Kernel({.in_place = summed_inputs(read_post_ops(context.node()))}),
        window_(WindowAttributes::of(context.node())),
        w_(context.constant_input(1)->dims()),
        pieces_(context.node(), w_),
        x_(context.input_dtype(0)),
        panels_(matrix_of(context.node(), *context.constant_input(1)), /*takes_words=*/true),
        terms_(*Int8Terms::of(context.node()), read_post_ops(context.node()), panels_,
               *context.constant_input(2)) {
    if (context.node().attr_int("channels_last", 0) == 0) {
      throw Error(ErrorCode::kInternal, "a convolution on bytes has its channels in the middle");
    }
  }

  std::size_t weight_bytes() const override { return panels_.bytes(); }
  bool reads_input(std::size_t i) const override { return i != 1 && i != 2; }
  std::string describe() const override {
    return int8_name(pieces_.depthwise ? "channel tiles" : "tiles");
  }

  void run(KernelContext& k) const override {
    const Tensor& x = k.input(0);
    const Dims& d = x.dims();
    const std::int64_t groups = pieces_.depthwise ? w_[0] : panels_.groups();
    if (d.size() != w_.size() || d.back() != groups * w_[1]) {
      throw Error(ErrorCode::kInvalidArgument,
                  "X, with its channels last, is " + to_string(std::span<const std::int64_t>(d)) +
                      ", W is " + to_string(std::span<const std::int64_t>(w_)) + " and group is " +
                      std::to_string(groups));
    }
    const Dims spatial(d.begin() + 1, d.end() - 1);
    const Window window = resolve(window_, spatial, Dims(w_.begin() + 2, w_.end()));
    Dims y_dims{d[0]};
    y_dims.insert(y_dims.end(), window.output.begin(), window.output.end());
    y_dims.push_back(w_[0]);
    Tensor& y = k.output(0, terms_.to(), y_dims);
    if (y.count() == 0) return;
    const TileProduct job(k, panels_, terms_, x_);
    Image image;
    image.channels = d.back();
    image.size = box_of(spatial, 1);
    image.data = x.data<std::uint8_t>();
    if (!is_usable(window, job, image)) image = bordered(k, job, window, image, d[0]);
    const Box strides = box_of(window.strides, 1);
    const Box output = box_of(window.output, 1);
    const auto rows = [&](std::int64_t first, std::span<const std::uint8_t*> addresses) {
      std::int64_t i = first;
      std::int64_t column = i % output[2];
      std::int64_t row = (i /= output[2]) % output[1];
      std::int64_t plane = (i /= output[1]) % output[0];
      std::int64_t batch = i / output[0];
      for (const std::uint8_t*& address : addresses) {
        address = image.at(batch, plane * strides[0], row * strides[1], column * strides[2]);
        if (++column < output[2]) continue;
        column = 0;
        if (++row < output[1]) continue;
        row = 0;
        if (++plane < output[0]) continue;
        plane = 0;
        ++batch;
      }
    };
    job.run(y.count() / w_[0], rows, offsets_in(image, box_of(window.dilations, 1)), {}, y);
  }

 private:
  struct Image {
    const std::uint8_t* data = nullptr;
    Box size{};
    std::int64_t channels = 0;
    std::int64_t unit = 1;  // bytes of an element

    const std::uint8_t* at(std::int64_t batch, std::int64_t plane, std::int64_t row,
                           std::int64_t column) const {
      return data +
             (((batch * size[0] + plane) * size[1] + row) * size[2] + column) * channels * unit;
    }
  };

  // Whether X can be read where it is.
  bool is_usable(const Window& window, const TileProduct& job, const Image& image) const {
    const auto none = [](const Dims& pads) {
      return std::all_of(pads.begin(), pads.end(), [](std::int64_t p) { return p == 0; });
    };
    const bool whole = pieces_.depthwise ? image.channels % ByteTiles::kColumns == 0
                                         : pieces_.length % ByteTiles::kQuad == 0;
    return job.takes_as_it_is() && whole && none(window.pads_begin) && none(window.pads_end);
  }

  static Image bordered(KernelContext& k, const TileProduct& job, const Window& window,
                        const Image& from, std::int64_t batch) {
    const Box begin = box_of(window.pads_begin, 0);
    const Box end = box_of(window.pads_end, 0);
    Image to = from;
    to.unit = job.unit();
    double bytes = static_cast<double>(batch * from.channels * to.unit);
    for (std::size_t i = 0; i < 3; ++i) {
      to.size[i] += begin[i] + end[i];
      bytes *= static_cast<double>(to.size[i]);
    }
    constexpr double kMost = 1e15;  // more than any machine has
    if (bytes > kMost) {
      throw Error(ErrorCode::kResource, "X with its padding does not fit into memory");
    }
    const std::int64_t row_bytes = to.size[2] * to.channels * to.unit;
    const std::int64_t rows = batch * to.size[0] * to.size[1];
    auto* memory = reinterpret_cast<std::uint8_t*>(
        k.scratch(static_cast<std::size_t>(rows * row_bytes + ByteTiles::kOverread)));
    std::memset(memory + rows * row_bytes, 0, ByteTiles::kOverread);
    to.data = memory;
    // The columns that both have.
    const std::int64_t left = std::max<std::int64_t>(begin[2], 0);
    const std::int64_t right = std::min(to.size[2], begin[2] + from.size[2]);
    constexpr std::int64_t kEnough = 1 << 16;  // bytes that are worth another thread
    k.parallel_for(rows, std::max<std::int64_t>(kEnough / std::max<std::int64_t>(row_bytes, 1), 1),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t r = first; r < last; ++r) {
                       std::uint8_t* row = memory + r * row_bytes;
                       const std::int64_t line = r % to.size[1] - begin[1];
                       const std::int64_t plane = r / to.size[1] % to.size[0] - begin[0];
                       const bool inside = line >= 0 && line < from.size[1] && plane >= 0 &&
                                           plane < from.size[0] && left < right;
                       const std::int64_t columns = inside ? left : to.size[2];
                       job.fill(columns * to.channels, row);
                       if (!inside) continue;
                       const std::int64_t n = (right - left) * to.channels;
                       const std::uint8_t* source =
                           from.at(r / to.size[1] / to.size[0], plane, line, left - begin[2]);
                       row += left * to.channels * to.unit;
                       job.copy(source, n, row);
                       job.fill((to.size[2] - right) * to.channels, row + n * to.unit);
                     }
                   });
    return to;
  }

  std::vector<std::int64_t> offsets_in(const Image& image, const Box& dilations) const {
    std::vector<std::int64_t> offsets;
    const std::int64_t columns = pieces_.whole_rows ? 1 : pieces_.kernel[2];
    for (std::int64_t group = 0; group < panels_.groups(); ++group) {
      for (std::int64_t plane = 0; plane < pieces_.kernel[0]; ++plane) {
        for (std::int64_t row = 0; row < pieces_.kernel[1]; ++row) {
          for (std::int64_t column = 0; column < columns; ++column) {
            const std::uint8_t* at =
                image.at(0, plane * dilations[0], row * dilations[1], column * dilations[2]);
            offsets.push_back(at - image.data + group * w_[1] * image.unit);
          }
        }
      }
    }
    if (pieces_.depthwise) offsets.push_back(offsets.back());  // taps come in pairs
    return offsets;
  }

  WindowAttributes window_;
  Dims w_;
  Pieces pieces_;
  DType x_;
  TilePanels panels_;
  TileTerms terms_;
};

// The time that bytes may take, in that of float32, which is quantised and dequantised besides.
constexpr double kMostTime = 1.4;

// A border of more than that is not worth a copy.
bool has_small_border(const Node& node, const Dims& x) {
  const std::vector<std::int64_t> pads = node.attr_ints("pads");
  double plain = 1, padded = 1;
  for (std::size_t i = 2; i < x.size(); ++i) {
    const auto size = static_cast<double>(x[i]);
    plain *= size;
    padded *= size;
    if (2 * (x.size() - 2) == pads.size()) {
      padded *=
          (size + static_cast<double>(pads[i - 2]) + static_cast<double>(pads[i + x.size() - 4])) /
          std::max(size, 1.0);
    }
  }
  constexpr double kMost = 16;
  constexpr double kLittle = 1 << 16;
  return padded <= kMost * plain + kLittle;
}

}  // namespace

bool tile_convolution_is_fast(const Node& fused, const Dims* x, const Tensor& w, Instead instead) {
  if (x != nullptr && !has_small_border(fused, *x)) return false;
  const std::int64_t group = need_int(fused, "group");
  if (w.count() == 0 || group < 1 || w.dims()[0] % group != 0) return false;
  return instead == Instead::kReference ||
         TilePanels::most_work(matrix_of(fused, w)) <= kMostTime * static_cast<double>(w.count());
}

void register_tile_conv(KernelRegistry& registry) {
  registry.add({.domain = std::string(kDomain),
                .op = "Conv",
                .priority = kPriority,
                .supports =
                    [](const NodeView& node) {
                      if (node.node().has("factors") && byte_products() == ByteProducts::kTiles) {
                        return Support::yes();
                      }
                      return Support::no("oneDNN computes it");
                    },
                .create = [](const KernelCreateContext& c) -> std::unique_ptr<Kernel> {
                  return std::make_unique<TileConvKernel>(c);
                }});
}

}  // namespace xrt::native::dnn
