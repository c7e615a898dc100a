// SPDX-License-Identifier: Apache-2.0
// Words, quoted strings and encoded bytes of the graph's text form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace xrt::text {

// Letters, digits and _ . / : - after a letter or _; anything else is quoted. A lone "_" means
// "absent" in the text and is quoted too.
bool is_word(std::string_view s);
// `s` itself, or quoted where it is no word.
std::string word(std::string_view s);
// "…" with \" \\ \n \t and \xHH for what does not print (bytes of 0x80 and above are kept).
std::string quote(std::string_view s);

std::string to_hex(std::string_view bytes);
std::string to_base64(std::string_view bytes);
// Nothing where the text is malformed.
std::optional<std::string> from_hex(std::string_view text);
std::optional<std::string> from_base64(std::string_view text);

}  // namespace xrt::text
