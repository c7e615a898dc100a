// SPDX-License-Identifier: Apache-2.0
#include "report/html.h"

#include <nlohmann/json.hpp>

#include "report/embed.h"
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

}  // namespace

std::string html(const Explanation& explanation, const std::vector<Port>& inputs,
                 const std::vector<Port>& outputs, const std::string& title) {
  Json data = Json::parse(explanation.to_json());
  data["title"] = title;
  data["version"] = version();
  data["inputs"] = ports_json(inputs);
  data["outputs"] = ports_json(outputs);
  const std::string dumped = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  return with_data(kPageTemplate, dumped);
}

}  // namespace xrt::report
