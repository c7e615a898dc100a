// SPDX-License-Identifier: Apache-2.0
// ImageDecoder: PNG, JPEG, BMP and PNM.
#include <algorithm>
#include <string>

#include "data/decode.h"
#include "engines/native/kernels/common/axes.h"
#include "engines/native/kernels/register.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

// Luma of ITU-R BT.601 in 16-bit fixed point, as Pillow and OpenCV have it.
std::uint8_t luma(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >>
                                   16U);
}

std::unique_ptr<Kernel> create_image_decoder(const KernelCreateContext& create) {
  const std::string format = need_string(create.node(), "pixel_format");
  if (format != "RGB" && format != "BGR" && format != "Grayscale") {
    fail("pixel_format '" + format + "' is not known");
  }
  return make_kernel([format](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Image image =
        decode_image({static_cast<const char*>(x.raw()), static_cast<std::size_t>(x.count())});
    const std::int64_t channels = format == "Grayscale" ? 1 : 3;
    Tensor& y = k.output(0, DType::kUInt8, {image.height, image.width, channels});
    auto* out = y.data<std::uint8_t>();
    for (std::int64_t p = 0; p < image.height * image.width; ++p) {
      const std::uint8_t* pixel = image.pixels.data() + p * 3;
      if (channels == 1) {
        out[p] = luma(pixel);
      } else if (format == "RGB") {
        std::copy_n(pixel, 3, out + p * 3);
      } else {
        std::reverse_copy(pixel, pixel + 3, out + p * 3);
      }
    }
  });
}

}  // namespace

void register_image_kernels(KernelRegistry& registry) {
  registry.add({.op = "ImageDecoder",
                .supports = [](const NodeView& n) { return n.check_input(0, {DType::kUInt8}); },
                .create = create_image_decoder});
}

}  // namespace xrt::native
