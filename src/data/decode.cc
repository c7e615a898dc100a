// SPDX-License-Identifier: Apache-2.0
#include "data/decode.h"

#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "data/bitmap.h"
#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void fail(const char* format, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{} picture: {}", format, what));
}

// How many pixels these bytes may hold: memory stays in proportion to them.
std::int64_t most_pixels(std::string_view bytes, std::int64_t per_byte) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  return size >= kMaxPixels / per_byte ? kMaxPixels : size * per_byte;
}

Image decode_png(std::string_view content) {
  png_image png;
  std::memset(&png, 0, sizeof(png));
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> holder(&png, png_image_free);
  if (png_image_begin_read_from_memory(&png, content.data(), content.size()) == 0) {
    fail("PNG", png.message);
  }
  png.format = PNG_FORMAT_RGB;
  Image image{png.width, png.height, {}};
  // Deflate makes at most 1,032 bytes of one, and a pixel takes at least a bit.
  if (image.width * image.height > most_pixels(content, 8 * 1032)) {
    fail("PNG", "it is too large, or too large for its bytes");
  }
  image.pixels.resize(PNG_IMAGE_SIZE(png));
  png_color black{0, 0, 0};
  if (png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr) == 0) {
    fail("PNG", png.message);
  }
  return image;
}

struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

void leave_jpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

// Warnings are not printed. libjpeg would fill the rest of a picture that is cut short with grey.
void hear_warning(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave_jpeg(info);
}

// Each scan of a picture goes over all of it, and takes ten bytes of the file: without a bound the
// time would grow with the square of the file's size. Encoders write about ten.
void count_scans(j_common_ptr info) {
  constexpr int kMostScans = 100;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof(errors->message), "it has more than %d scans", kMostScans);
  std::longjmp(errors->jump, 1);
}

// libjpeg reports errors by longjmp: nothing in here may have a destructor.
bool decode_jpeg(std::string_view content, Image& image, JpegErrors& errors) {
  jpeg_decompress_struct info;
  jpeg_progress_mgr progress;
  progress.progress_monitor = count_scans;
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave_jpeg;
  errors.base.emit_message = hear_warning;
  if (setjmp(errors.jump) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  info.progress = &progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(content.data()), content.size());
  jpeg_read_header(&info, TRUE);
  image.width = info.image_width;
  image.height = info.image_height;
  // A block of 64 pixels takes at least a bit in one of a picture's scans. A picture of many scans
  // takes memory as soon as it is begun.
  if (image.width * image.height > most_pixels(content, 8 * 64)) {
    std::snprintf(errors.message, sizeof(errors.message),
                  "it is too large, or too large for its bytes");
    jpeg_destroy_decompress(&info);
    return false;
  }
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  image.pixels.resize(static_cast<std::size_t>(image.width * image.height) * 3);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.pixels.data() + static_cast<std::size_t>(info.output_scanline) *
                                             static_cast<std::size_t>(image.width) * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return true;
}

}  // namespace

Image decode_image(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG")) return decode_png(bytes);
  if (bytes.starts_with("\xFF\xD8")) {
    Image image;
    JpegErrors errors;
    if (!decode_jpeg(bytes, image, errors)) fail("JPEG", errors.message);
    return image;
  }
  if (bytes.starts_with("BM")) return decode_bmp(bytes);
  if (bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7') {
    return decode_pnm(bytes);
  }
  throw Error(ErrorCode::kUnsupported, "the picture is neither PNG, JPEG, BMP nor PNM");
}

}  // namespace xrt
