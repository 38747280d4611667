#include "reports/annotation.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "harness/record/one_line.h"
#include "harness/record/scan.h"

namespace tidemark {
namespace {

std::string escaped(const std::string& text, const char* more) {
  std::string out;
  for (char c : one_line(text)) {
    const bool special = c == '%' || std::string_view(more).find(c) != std::string_view::npos;
    out += special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

// The one file of this name below the current folder, without hidden folders; or the name.
std::string path_of(const std::string& name) {
  namespace fs = std::filesystem;
  std::string match;
  std::error_code none;
  for (fs::recursive_directory_iterator it(".", none), end; !none && it != end;
       it.increment(none)) {
    const std::string here = it->path().filename();
    if (here.starts_with(".") && it->is_directory(none)) it.disable_recursion_pending();
    if (here != name) continue;
    if (!match.empty()) return name;
    match = it->path().lexically_normal();
  }
  return match.empty() ? name : match;
}

bool is_true(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "true";
}

}  // namespace

bool in_ci() { return is_true("GITHUB_ACTIONS") || is_true("GITLAB_CI"); }

std::string annotation_line(const Annotation& annotation) {
  const std::string place =
      annotation.file.empty()
          ? ""
          : fmt::format("file={},line={},", escaped(annotation.file, ":,"), annotation.line);
  return fmt::format("::error {}title={}::{}\n", place, escaped(annotation.title, ":,"),
                     escaped(annotation.message, ""));
}

Annotation annotation_at(const std::string& text, std::string title, std::string message) {
  Annotation out{std::move(title), std::move(message), "", 0};
  constexpr std::string_view kLine = ".py:";
  for (std::size_t at = text.rfind(kLine); at != std::string::npos && at > 0;
       at = text.rfind(kLine, at - 1)) {
    Scan scan(std::string_view(text).substr(at + kLine.size()));
    const auto line = scan.number(9);
    const bool ends = scan.done() || (scan.take(" (") && scan.rest().ends_with(')'));
    const std::size_t space = text.rfind(' ', at);
    if (!line || *line < 0 || !ends || space == std::string::npos) continue;
    out.file = path_of(text.substr(space + 1, at + 2 - space));
    out.line = static_cast<int>(*line);
    break;
  }
  return out;
}

}  // namespace tidemark
