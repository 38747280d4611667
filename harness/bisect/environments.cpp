#include "harness/bisect/environments.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "harness/device/linked_device.h"
#include "harness/errors.h"
#include "harness/record/file.h"
#include "harness/record/json.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The place of a file below a folder; empty: it is elsewhere.
fs::path below(const fs::path& file, const fs::path& folder) {
  const fs::path relative = file.lexically_relative(folder);
  return relative.empty() || *relative.begin() == ".." ? fs::path() : relative;
}

std::string first_of(const char* variable, const std::string& value) {
  const char* before = std::getenv(variable);
  return before == nullptr || *before == 0 ? value : value + ":" + before;
}

}  // namespace

std::string Environments::ask(const std::string& act, const std::string& request) const {
  const char* set = std::getenv("TIDEMARK_PYTHON");
  const std::string python = set != nullptr && *set != 0 ? set : "python3";
  const fs::path script = linked_folder() / "python" / "tidemark_environments.py";
  std::string line;
  for (const std::string& word : {python, script.string(), act, request})
    line += shell_word(word) + " ";
  FILE* pipe = popen(line.c_str(), "re");
  if (pipe == nullptr) throw Unavailable("bisect: " + python + " cannot be started", 3);
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t size = std::fread(piece.data(), 1, piece.size(), pipe))
    text.append(piece.data(), size);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw Unavailable("bisect: there is no " + python + " (TIDEMARK_PYTHON names another)", 3);
  if (WIFEXITED(status) && text.starts_with("error: ")) {
    text = text.substr(7, text.find('\n') - 7);
    if (WEXITSTATUS(status) == 2) throw UsageError(text);
    throw Unavailable(text, 3);
  }
  throw Unavailable("bisect: " + script.filename().string() + " ended early", 3);
}

Versions Environments::versions() const {
  Json request{{"first", bisect_.first}, {"last", bisect_.last}, {"kept", bisect_.fit.cache}};
  const bool commits = bisect_.package.empty();
  if (commits)
    request["repo"] = bisect_.repository;
  else
    request["python"] = python_, request["package"] = bisect_.package,
    request["listed"] = bisect_.listed;
  const Json answer = Json::parse(ask(commits ? "commits" : "list", request.dump()));
  Versions out;
  out.names = answer.at("versions").get<std::vector<std::string>>();
  if (commits) out.titles = answer.at("titles").get<std::vector<std::string>>();
  if (!commits)
    for (const Json& one : answer.at("skipped")) out.skipped.emplace_back(one.at(0), one.at(1));
  return out;
}

Environment Environments::make(const std::string& version) const {
  const Json request{{"python", python_},          {"package", bisect_.package},
                     {"version", version},         {"fixed", bisect_.fixed},
                     {"repo", bisect_.repository}, {"kept", bisect_.fit.cache}};
  const Json answer = Json::parse(ask("make", request.dump()));
  Environment out;
  if (answer.contains("skipped")) {
    out.skipped = answer.at("skipped");
    return out;
  }
  out.folder = answer.at("folder").get<std::string>();
  out.lock = answer.at("lock").get<std::string>();
  out.beside = answer.at("path").get<std::string>();
  out.files = answer.at("repo").get<std::string>();
  out.packages = answer.at("packages").get<std::map<std::string, std::string>>();
  out.changed = answer.at("changed").get<std::vector<std::string>>();
  return out;
}

std::vector<std::string> Environments::program(const Environment& of) const {
  std::vector<std::string> out = bisect_.fit.program;
  std::error_code none;
  if (out.front().find('/') != std::string::npos) {  // a program of the user's environment
    const fs::path file = fs::absolute(out.front()).lexically_normal();
    const fs::path here = of.folder / "bin" / file.filename();
    if (file == python_ || (file.parent_path() == python_.parent_path() && fs::exists(here, none)))
      out.front() = file == python_ ? of.folder / "bin" / "python" : here;
  }
  if (of.files.empty()) return out;
  const fs::path top = bisect_.repository;
  for (std::string& word : out) {
    const fs::path file = fs::absolute(word).lexically_normal();
    const fs::path place = fs::exists(file, none) ? below(file, top) : fs::path();
    if (!place.empty() && fs::exists(of.files / place, none)) word = of.files / place;
  }
  return out;
}

std::map<std::string, std::string> Environments::variables(const Environment& of) const {
  std::map<std::string, std::string> out{{"PATH", first_of("PATH", of.folder / "bin")},
                                         {"VIRTUAL_ENV", of.folder}};
  if (!of.beside.empty()) out["PYTHONPATH"] = first_of("PYTHONPATH", of.beside);
  return out;
}

}  // namespace tidemark
