#include "harness/ranks/launch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "harness/print.h"
#include "harness/ranks/launcher.h"
#include "harness/ranks/local_link.h"
#include "harness/ranks/mpi_library.h"
#include "harness/ranks/processes.h"
#include "harness/record/file.h"
#include "harness/virtual/device/new_file.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

// A folder of the launching process that its ranks share: the agreed exit code, and who failed
// first.
constexpr const char* kSession = "TIDEMARK_SESSION";
constexpr const char* kAgain = "again";

// Processes that the kernel has killed since it started because there was no memory left.
long killed_for_memory() {
  TextIn counts(text_of_file("/proc/vmstat").value_or(""));
  std::string name;
  for (long count = 0; counts >> name >> count;)
    if (name == "oom_kill") return count;
  return 0;
}

// The rank that ended first knows best; a rank that gave up has said why.
std::string cause(const fs::path& session, const ProcessesEnd& end) {
  const fs::path failed = session / "failed";
  std::error_code none;
  const auto gave_up = fs::last_write_time(failed, none);
  std::string why = end.first.empty() ? "they did not agree on an exit code" : end.first;
  if (!none && (end.first.empty() || gave_up <= end.first_at)) why = first_bytes(failed, 4096);
  why.resize(std::min(why.find('\n'), why.size()));
  return why;
}

}  // namespace

std::string Ending::brief() const {
  return why.substr(0, std::min(why.find(';'), std::size_t{160}));
}

int local_rank() {
  if (launched_by_tidemark()) return std::atoi(std::getenv(kRank));
  const auto launcher = find_launcher();
  return launcher ? launcher->local_rank : 0;
}

bool launched_by_tidemark() { return std::getenv(kSession) != nullptr; }

std::shared_ptr<Link> link_of_launcher() {
  if (launched_by_tidemark()) return local_link();
  const auto launcher = find_launcher();
  if (launcher && launcher->mpi && launcher->size != 1) return mpi_link();  // one rank needs none
  return std::make_shared<Link>(0, 1);
}

std::filesystem::path session_folder() {
  const char* session = std::getenv(kSession);
  return session != nullptr ? session : "";
}

Ended launch(int ranks, const std::vector<std::string>& argv, const fs::path& wanted) {
  std::error_code none;
  std::string session = wanted.string();
  if (!wanted.empty()) {
    fs::remove_all(wanted, none);
    fs::create_directory(wanted, none);
  } else {
    const fs::path place = fs::temp_directory_path(none);
    session = (place / "tidemark-XXXXXX").string();
    if (!none && mkdtemp(session.data()) == nullptr) none = {errno, std::generic_category()};
  }
  if (none) {
    const char* chosen = std::getenv("TMPDIR");
    print_error(fmt::format(
        "no folder for this run can be made in {}: {}; set another {}",
        wanted.empty() && chosen != nullptr ? chosen : fs::path(session).parent_path().c_str(),
        none.message(), wanted.empty() ? "TMPDIR" : "--out"));
    return {};
  }
  const std::string socket = new_socket_name();
  std::vector<Start> starts;
  for (int rank = 0; rank < ranks; ++rank)
    starts.push_back({"rank " + std::to_string(rank),
                      argv,
                      {{kSession, session},
                       {kRank, std::to_string(rank)},
                       {kRanks, std::to_string(ranks)},
                       {kSocket, socket}}});
  setenv("OMP_NUM_THREADS", "1", 0);
  setenv("TIDEMARK_NCCL_WAITS", "1", 0);  // a rank's error names the call that it waited in
  const long killed_before = killed_for_memory();
  const ProcessesEnd end = run_processes(starts, ranks, /*together=*/true, session);
  Ended ended;
  if (fs::exists(fs::path(session) / kAgain) && end.signal == 0) {
    TextIn again(first_bytes(fs::path(session) / kAgain, 4096));
    std::getline(again, ended.again);
  } else if (fs::exists(fs::path(session) / "exit_code")) {
    TextIn agreed(first_bytes(fs::path(session) / "exit_code", 20));
    agreed >> ended.code;
  } else {
    Ending ending{"interrupted", end.signal != 0};
    if (!ending.interrupted) {
      ending.why = cause(session, end);
      if (const long killed = killed_for_memory() - killed_before; killed > 0)
        ending.why += "; the kernel killed " + std::to_string(killed) +
                      " process(es) for lack of memory meanwhile";
    } else {
      ended.code = 130;
    }
    if (ending.interrupted || !fs::exists(fs::path(session) / "failed"))
      print_error("the ranks ended without a result: " + ending.why);
    ended.early = ending;
  }
  if (wanted.empty()) fs::remove_all(session, none);
  return ended;
}

void ask_again(const std::string& why) {
  write_first(session_folder() / kAgain, why.substr(0, why.find('\n')) + "\n");
}

int leave_with(int code) {
  if (!launched_by_tidemark()) return code;
  write_first(session_folder() / "exit_code", std::to_string(code) + "\n");
  return 0;  // any other code says that this rank failed; the launching process returns the real
             // one
}

bool write_first(const fs::path& file, const std::string& text) {
  const int opened = create_first(file.c_str(), O_WRONLY, 0600);
  if (opened < 0) return false;
  [[maybe_unused]] const auto written = write(opened, text.data(), text.size());
  close(opened);
  return true;
}

bool first_to_fail(const std::string& what) {
  return !launched_by_tidemark() || write_first(session_folder() / "failed", what);
}

}  // namespace tidemark
