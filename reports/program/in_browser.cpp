// Side of WebAssembly of reports/page/explain.html: the page that `tidemark explain FILE...
// --report` writes. Changes are not tried, since PyTorch's allocator is not here.
#include <emscripten/emscripten.h>

#include <cstddef>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/one_line.h"
#include "reports/program/snapshot_page.h"

namespace tidemark {
namespace {

std::vector<ExplainedDevice> all;
std::string said;  // the page, or the reason why there is none

/// Runs `what`; false where it throws, and `said` has the reason, one line.
bool tried(const auto& what) {
  try {
    what();
    return true;
  } catch (const std::bad_alloc&) {
    said = "the browser has no memory left for this file: `tidemark open FILE` shows it";
  } catch (const std::exception& error) {
    said = one_line(error.what());
  }
  return false;
}

}  // namespace
}  // namespace tidemark

extern "C" {

/// Adds a file; 1, or 0 with the reason in tidemark_said.
EMSCRIPTEN_KEEPALIVE int tidemark_add(const char* name, const char* bytes, std::size_t size) {
  using namespace tidemark;
  return tried([&] {
    auto some = explain(parse_snapshot(std::string_view(bytes, size), name), name, {}, true);
    for (ExplainedDevice& one : some) all.push_back(std::move(one));
  });
}

/// The page of all files that were added, in tidemark_said; else 0, and the reason.
EMSCRIPTEN_KEEPALIVE int tidemark_page(std::size_t top) {
  using namespace tidemark;
  return tried([&] { said = snapshot_page(std::move(all), {}, top); });
}

EMSCRIPTEN_KEEPALIVE const char* tidemark_said() { return tidemark::said.c_str(); }

}  // extern "C"
