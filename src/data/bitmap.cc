// SPDX-License-Identifier: Apache-2.0
#include "data/bitmap.h"

#include <fmt/format.h>

#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void damaged(const char* format) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the {} picture is damaged or cut short", format));
}

[[noreturn]] void unsupported(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, what);
}

// A picture of these sizes, or an error.
Image sized(std::int64_t width, std::int64_t height, const char* format) {
  if (width < 1 || height < 1 || width > kMaxPixels || height > kMaxPixels / width) {
    damaged(format);
  }
  return {width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height) * 3)};
}

// Little-endian unsigned number of `size` bytes at `at`.
std::int64_t number(std::string_view bytes, std::size_t at, std::size_t size) {
  if (at > bytes.size() || bytes.size() - at < size) damaged("BMP");
  std::int64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value |= static_cast<std::int64_t>(static_cast<std::uint8_t>(bytes[at + i])) << (8 * i);
  }
  return value;
}

// What stands in a PNM file between white space and comments.
class PnmReader {
 public:
  explicit PnmReader(std::string_view bytes) : bytes_(bytes), at_(2) {}

  std::int64_t next() {
    while (at_ < bytes_.size() && (is_space(bytes_[at_]) || bytes_[at_] == '#')) {
      if (bytes_[at_] == '#') {
        while (at_ < bytes_.size() && bytes_[at_] != '\n') ++at_;
      } else {
        ++at_;
      }
    }
    const std::size_t start = at_;
    std::int64_t value = 0;
    for (; at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9'; ++at_) {
      value = value * 10 + (bytes_[at_] - '0');
      if (value > kMaxPixels) damaged("PNM");
    }
    if (at_ == start) damaged("PNM");
    return value;
  }

  // The bytes after one white space.
  std::string_view rest() {
    if (at_ >= bytes_.size() || !is_space(bytes_[at_])) damaged("PNM");
    return bytes_.substr(at_ + 1);
  }

 private:
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  std::string_view bytes_;
  std::size_t at_;
};

}  // namespace

Image decode_bmp(std::string_view bytes) {
  const std::int64_t pixels_at = number(bytes, 10, 4);
  const std::int64_t header = number(bytes, 14, 4);
  if (header < 40) unsupported("a BMP picture of OS/2");
  const auto width = static_cast<std::int32_t>(number(bytes, 18, 4));
  const auto signed_height = static_cast<std::int32_t>(number(bytes, 22, 4));
  const std::int64_t bits = number(bytes, 28, 2);
  const std::int64_t compression = number(bytes, 30, 4);
  if ((bits != 8 && bits != 24 && bits != 32) || compression != 0) {
    unsupported(
        fmt::format("a BMP picture of {} bits per pixel and compression {}", bits, compression));
  }
  const bool downwards = signed_height < 0;
  const std::int64_t height = downwards ? -static_cast<std::int64_t>(signed_height) : signed_height;
  // Rows are padded to four bytes. Checked before memory is taken for the pixels.
  const std::int64_t row_bytes = (static_cast<std::int64_t>(width) * bits + 31) / 32 * 4;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (width < 1 || height < 1 || pixels_at > size || height > (size - pixels_at) / row_bytes) {
    damaged("BMP");
  }
  Image image = sized(width, height, "BMP");
  const std::int64_t palette_at = 14 + header;
  for (std::int64_t y = 0; y < height; ++y) {
    const auto row =
        static_cast<std::size_t>(pixels_at + (downwards ? y : height - 1 - y) * row_bytes);
    for (std::int64_t x = 0; x < width; ++x) {
      auto from = row + static_cast<std::size_t>(x * bits / 8);
      if (bits == 8) {
        from = static_cast<std::size_t>(palette_at + number(bytes, from, 1) * 4);
      }
      const std::int64_t bgr = number(bytes, from, 3);
      std::uint8_t* pixel = image.pixels.data() + (y * width + x) * 3;
      pixel[0] = static_cast<std::uint8_t>(bgr >> 16);
      pixel[1] = static_cast<std::uint8_t>(bgr >> 8);
      pixel[2] = static_cast<std::uint8_t>(bgr);
    }
  }
  return image;
}

Image decode_pnm(std::string_view bytes) {
  const char kind = bytes.at(1);
  if (kind != '2' && kind != '3' && kind != '5' && kind != '6') {
    unsupported(fmt::format("a PNM picture of kind P{}", kind));
  }
  PnmReader reader(bytes);
  const std::int64_t width = reader.next();
  const std::int64_t height = reader.next();
  const std::int64_t levels = reader.next();
  if (levels < 1) damaged("PNM");
  if (levels > 255) unsupported("a PNM picture of more than 255 levels");
  const std::int64_t channels = kind == '3' || kind == '6' ? 3 : 1;
  const bool text = kind < '4';
  const std::string_view rest = reader.rest();
  const auto left = static_cast<std::int64_t>(rest.size());
  // A sample is a byte; in text it is at least a digit, and a space behind all but the last.
  const std::int64_t most_samples = text ? (left + 1) / 2 : left;
  if (width < 1 || height < 1 || width > most_samples || height > most_samples / width / channels) {
    damaged("PNM");
  }
  Image image = sized(width, height, "PNM");
  for (std::int64_t i = 0; i < width * height * channels; ++i) {
    const std::int64_t sample =
        text ? reader.next() : static_cast<std::uint8_t>(rest[static_cast<std::size_t>(i)]);
    if (sample > levels) damaged("PNM");
    const auto value = static_cast<std::uint8_t>((sample * 255 + levels / 2) / levels);
    if (channels == 3) {
      image.pixels[static_cast<std::size_t>(i)] = value;
    } else {
      std::fill_n(image.pixels.begin() + i * 3, 3, value);
    }
  }
  return image;
}

}  // namespace xrt
