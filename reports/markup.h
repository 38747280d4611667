// Texts as HTML, XML and addresses write them.
#pragma once

#include <string>
#include <string_view>

namespace tidemark {

/// As HTML and XML write the character; null where that is as it is.
const char* entity(char c);
/// One line, as HTML and XML write it between tags and in double quotes.
std::string markup_text(const std::string& text);
/// As markup_text, with places where a long name may go on in the next line: after /, _ and ::.
std::string breakable(const std::string& text);
/// As addresses write it: letters, digits and those of `kept` stay, all else is %20.
std::string percent_encoded(const std::string& text, std::string_view kept);

}  // namespace tidemark
