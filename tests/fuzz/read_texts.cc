// SPDX-License-Identifier: Apache-2.0
// Any text given as one of the small forms that the runtime reads is a value or an xrt::Error. The
// first byte says which form: a digit, in the seeds.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "data/labelled_set.h"
#include "memory_file.h"
#include "options/sizes.h"
#include "placement/decision.h"
#include "registry/engine_manifest.h"
#include "xrt/calibration.h"
#include "xrt/error.h"
#include "xrt/options.h"
#include "xrt/xrt.h"

namespace {

xrt::fuzz::MemoryFile& file() {
  static xrt::fuzz::MemoryFile file;
  return file;
}

[[noreturn]] void differs(const char* what, const std::string& before, const std::string& after) {
  std::fprintf(stderr, "%s was:\n%s\nand is:\n%s\n", what, before.c_str(), after.c_str());
  std::abort();
}

// What lies beside an engine's library.
void manifest(std::string_view text) {
  file().write(text);
  xrt::read_engine_manifest(file().path());
}

// What placement found out, as it is kept in a cache.
void decision(std::string_view text) {
  if (const auto read = xrt::decision_from_json(text)) {
    const std::string written = xrt::to_json(*read);
    const auto again = xrt::decision_from_json(written);
    const std::string rewritten = again ? xrt::to_json(*again) : "nothing";
    if (written != rewritten) differs("the decision", written, rewritten);
  }
}

// The checksum is made right first, so that mutations reach what is behind it.
void table(std::string_view text) {
  constexpr std::string_view kChecksum = "checksum: ";
  std::string mended(text.substr(0, text.rfind(kChecksum)));
  mended += kChecksum;
  mended +=
      xrt::hash_bytes(mended.data(), mended.size() - kChecksum.size()).hex() + std::string("\n");
  const std::string written = xrt::format_table(xrt::parse_table(mended, "a table"));
  const std::string again = xrt::format_table(xrt::parse_table(written, "a table"));
  if (written != again) differs("the table", written, again);
}

void tensorrt_cache(std::string_view text) { xrt::parse_tensorrt_cache(text, "a cache"); }

// A line each: NAME=VALUE, as other programs and the environment set options.
void options(std::string_view text) {
  xrt::ProgramOptions made;
  xrt_options* of_c = nullptr;
  if (xrt_options_create(&of_c, nullptr) != XRT_OK) std::abort();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(line.substr(0, equals)), value(line.substr(equals + 1));
    xrt_status* status = nullptr;
    if (xrt_options_set(of_c, name.c_str(), value.c_str(), &status) == XRT_ERROR_INTERNAL) {
      std::abort();
    }
    xrt_status_free(status);
    try {
      xrt::set_option(made, name, value);
      xrt::option_text(made, name);
    } catch (const xrt::Error&) {  // the next line is read all the same
    }
  }
  xrt_options_free(of_c);
  xrt::option_key(made);
  for (const auto& [input, shape] : made.shapes) {
    try {
      xrt::parse_shape(input, shape);
    } catch (const xrt::Error&) {
    }
  }
  xrt::check_options(made);
  const auto ranges = xrt::named_ranges(made);
  made.ranges = xrt::to_option(ranges);
  if (xrt::named_ranges(made) != ranges) std::abort();
}

void shape(std::string_view text) { xrt::parse_shape("x", text); }
void range(std::string_view text) { xrt::parse_range("n", text); }

// A list of pictures and labels. The paths that it names are not opened.
void picture_list(std::string_view text) {
  file().write(text);
  xrt::LabelledSource source;
  source.path = file().path();
  source.format = "csv";
  const auto set = xrt::open_labelled_set(source);
  for (std::size_t i = 0; i < set->size(); ++i) set->place(i);
}

constexpr auto kForms = std::to_array<void (*)(std::string_view)>(
    {manifest, decision, table, tensorrt_cache, options, shape, range, picture_list});

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    kForms[static_cast<std::uint8_t>(text[0] - '0') % kForms.size()](text.substr(1));
  } catch (const xrt::Error& error) {
    if (error.code() == xrt::ErrorCode::kInternal) std::abort();
  }
  return 0;
}
