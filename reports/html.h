// report.html: one file that needs no network. Its sources are the modules in page/, put together
// at build time.
#pragma once

#include <string>
#include <string_view>

#include "harness/record.h"

namespace tidemark {

std::string html(const Report& report);

/// JSON that may stand in a script element: nothing in it can end the element or start a comment.
std::string script_safe(std::string_view json);

}  // namespace tidemark
