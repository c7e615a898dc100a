// SPDX-License-Identifier: Apache-2.0
#include "report/html.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "report/page.h"
#include "xrt/version.h"

namespace xrt::report {
namespace {

using Json = nlohmann::ordered_json;

Json ports_json(const std::vector<Port>& ports) {
  Json list = Json::array();
  for (const Port& port : ports) {
    list.push_back({{"name", port.name}, {"type", to_string(port.type)}});
  }
  return list;
}

void replace_once(std::string& text, std::string_view from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) {
    throw Error(ErrorCode::kInternal, "the page's template lacks " + std::string(from));
  }
  text.replace(at, from.size(), to);
}

}  // namespace

std::string html(const Explanation& explanation, const std::vector<Port>& inputs,
                 const std::vector<Port>& outputs, const std::string& title) {
  Json data = Json::parse(explanation.to_json());
  data["title"] = title;
  data["version"] = version();
  data["inputs"] = ports_json(inputs);
  data["outputs"] = ports_json(outputs);
  const std::string dumped = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  // A name must not be able to end the script element that holds the data.
  std::string safe;
  safe.reserve(dumped.size());
  for (const char c : dumped) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  std::string page(kPageTemplate);
  replace_once(page, "__XRT_DATA__", safe);
  return page;
}

}  // namespace xrt::report
