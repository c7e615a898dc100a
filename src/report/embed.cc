// SPDX-License-Identifier: Apache-2.0
#include "report/embed.h"

#include "xrt/error.h"

namespace xrt::report {

std::string with_data(std::string_view page, const std::string& json) {
  constexpr std::string_view kPlace = "__XRT_DATA__";
  const std::size_t at = page.find(kPlace);
  if (at == std::string_view::npos) {
    throw Error(ErrorCode::kInternal, "the page's template lacks " + std::string(kPlace));
  }
  std::string whole(page.substr(0, at));
  for (const char c : json) {
    if (c == '<') {
      whole += "\\u003c";
    } else {
      whole += c;
    }
  }
  return whole.append(page.substr(at + kPlace.size()));
}

}  // namespace xrt::report
