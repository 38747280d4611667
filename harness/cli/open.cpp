// tidemark open [PATH]: serves a report's folder on this machine, and opens its page, or a file of
// it in the tool that reads it. The server is Python's.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "harness/cli/files.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

struct Opened {
  std::string path = "tidemark-out/latest";
  int port = 0;
  bool no_browser = false;
};

/// The folder of the report that `file` lies in.
fs::path folder_of(const fs::path& file) {
  for (fs::path at = file.parent_path(); at != at.parent_path(); at = at.parent_path())
    if (fs::exists(at / "report.json")) return at;
  return file.parent_path();
}

bool ends_in(const fs::path& file, const char* end) { return file.string().ends_with(end); }

int serve(const Opened& opened) {
  std::error_code error;
  const fs::path place = fs::canonical(opened.path, error);
  if (error)
    throw std::runtime_error(
        fmt::format("open: {} cannot be read ({}): give the folder of a report, or a file of it",
                    opened.path, error.message()));
  const bool whole = fs::is_directory(place);
  const fs::path file = whole ? place / "report.html" : place,
                 folder = whole ? place : folder_of(file);
  if (!fs::is_regular_file(file, error))
    throw std::runtime_error(
        fmt::format("open: {} has no report.html: give the folder of a report (tidemark report "
                    "writes its page)",
                    opened.path));
  if (!ends_in(file, ".html") && !ends_in(file, ".record") && !ends_in(file, ".pickle") &&
      !ends_in(file, ".json") && !ends_in(file, ".json.gz"))
    throw std::runtime_error(
        fmt::format("open: {} is neither a page, a trace nor a snapshot", opened.path));
  const char* named = std::getenv("TIDEMARK_PYTHON");
  const std::string python = named != nullptr && *named != 0 ? named : "python3";
  const std::string script =
      fs::read_symlink("/proc/self/exe").parent_path() / "virtual/python/tidemark_open.py";
  const std::string name = fs::relative(file, folder), port = std::to_string(opened.port);
  const std::string tidemark = fs::read_symlink("/proc/self/exe");
  execlp(python.c_str(), python.c_str(), "-I", script.c_str(), folder.c_str(), name.c_str(),
         port.c_str(), opened.no_browser ? "no" : "yes", tidemark.c_str(), nullptr);
  throw std::runtime_error(
      fmt::format("open: {} cannot be started: {}", python, std::strerror(errno)));
}

}  // namespace

void add_open(CLI::App& app, Act& act) {
  auto* command = app.add_subcommand(
      "open", "show a report in the browser, or its files in Perfetto and memory_viz");
  auto opened = std::make_shared<Opened>();
  command
      ->add_option("path", opened->path,
                   "folder of a report, its page, a trace (Perfetto) or a snapshot (the page of "
                   "tidemark explain; memory_viz)")
      ->capture_default_str();
  command->add_option("--port", opened->port, "port of 127.0.0.1 (0: a free one)")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_flag("--no-browser", opened->no_browser, "print the addresses alone");
  command->footer(
      "examples:\n"
      "  tidemark open\n"
      "  tidemark open DIR/rank0.trace.json.gz\n"
      "  tidemark open DIR/rank0.record --no-browser\n"
      "  tidemark open oom_rank3.pickle\n"
      "Only this machine reaches the server. Perfetto and memory_viz come from their sites; the "
      "file stays in the browser.\n"
      "exit codes: 0 ended by Ctrl-C, 2 usage or bad input");
  command->callback([opened, &act] { act = [opened] { return serve(*opened); }; });
}

}  // namespace tidemark
