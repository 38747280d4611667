#include "harness/exec/program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/record/file.h"
#include "harness/record/one_line.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

bool runs(const fs::path& file) {
  return fs::is_regular_file(file) && access(file.c_str(), X_OK) == 0;
}

bool is_python(const std::string& name) {
  return name.starts_with("python") &&
         name.find_first_not_of("0123456789.", std::string_view("python").size()) ==
             std::string::npos;
}

// The first two lines: of a script with a long path the second starts the interpreter (pip's
// #!/bin/sh, then '''exec' "/path/python" "$0" "$@").
std::string head_of(const fs::path& program) {
  const std::string head = first_bytes(program, 1 << 16);
  if (!head.starts_with("#!")) return "";
  TextIn file(head.substr(2));
  std::string first, second;
  std::getline(file, first);
  std::getline(file, second);
  return second.rfind("'''exec'", 0) == 0 ? second.substr(8) : first;
}

}  // namespace

fs::path find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (runs(name)) return fs::absolute(name);
  } else {
    const char* places = std::getenv("PATH");
    TextIn path(places == nullptr ? "/usr/bin:/bin" : places);
    for (std::string folder; std::getline(path, folder, ':');) {
      const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
      if (runs(file)) return fs::absolute(file);
    }
  }
  const bool is_there = name.find('/') != std::string::npos && fs::exists(name);
  const std::string why = is_there ? "it is not an executable file" : "there is no such program";
  std::string hint;
  if (name.ends_with(".py") && fs::exists(name)) hint = ": write python3 " + name;
  throw UsageError("exec: " + name + " cannot be started: " + why + hint);
}

std::optional<fs::path> python_of(const fs::path& program) {
  if (is_python(program.filename().string())) return program;
  const std::string head = head_of(program);
  if (const auto quote = head.find('"'); quote != std::string::npos) {  // a path with spaces
    const fs::path quoted = head.substr(quote + 1, head.find('"', quote + 1) - quote - 1);
    if (is_python(quoted.filename().string())) return quoted;
  }
  TextIn words(head);
  for (std::string word; words >> word;) {
    if (!is_python(fs::path(word).filename().string())) continue;
    if (word.find('/') == std::string::npos) return find_program(word);  // of /usr/bin/env
    return fs::path(word);
  }
  return std::nullopt;
}

Libraries own_libraries(const fs::path& folder) {
  Libraries own;
  own.torch = nlohmann::json::parse(read_bytes(folder / "python" / "built.json")).at("torch");
  own.layer = folder / "libtidemark_operators.so";
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().filename().string().find(".so.") != std::string::npos)
      own.preloaded.push_back(file.path());
  }
  std::ranges::sort(own.preloaded);
  return own;
}

Libraries libraries_for(const fs::path& python, const fs::path& folder) {
  const std::string script = folder / "python" / "tidemark_wheel.py";
  const std::string command = shell_word(python) + " " + shell_word(script) + " --check";
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr && errno == ENOMEM) throw std::bad_alloc();
  if (pipe == nullptr) throw UsageError("exec: " + python.string() + " cannot be started");
  std::array<char, 512> piece{};
  while (const std::size_t size = std::fread(piece.data(), 1, piece.size(), pipe))
    output.append(piece.data(), size);
  const int status = pclose(pipe);
  const std::string mark =
      "tidemark-check:";  // a sitecustomize of the user's may have printed before
  const auto at = output.rfind(mark);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || at == std::string::npos)
    throw UsageError("exec: " + python.string() + " cannot be run");
  const auto answer = nlohmann::json::parse(output.substr(at + mark.size()));
  if (answer.contains("problem"))
    throw UsageError("exec: " + python.string() + " " + answer.at("problem").get<std::string>());
  return {answer.at("torch"), answer.at("layer").get<std::string>(),
          answer.at("libraries").get<std::vector<fs::path>>()};
}

}  // namespace tidemark
