#include "harness/virtual/recorder/process_file.h"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/json_string.h"
#include "harness/virtual/device/names.h"
#include "harness/virtual/device/new_file.h"
#include "harness/virtual/device/symbol.h"
#include "harness/virtual/recorder/recorder.h"
#include "harness/virtual/recorder/state.h"

namespace tidemark::recorder {
namespace {

using Text = std::size_t(char*, std::size_t);

constexpr auto kInterval = std::chrono::milliseconds(500);

/// Texts of one answer, and the number of times that the program got it.
struct Answer {
  std::string operation, text, line;
  bool decides = false;
  std::uint64_t count = 0;
};

struct ProcessFile {
  std::mutex writing;
  std::string place;  // "": no record has begun
  bool ended = false;
  int watch = 0;  // the number of the thread that writes
  std::int64_t begin_ns = 0;
  std::vector<std::string> gpus;  // that the process sees, as its machine names them

  std::mutex counting;
  std::vector<Answer> answers;  // in the order in which the program got them first
  std::map<std::string, std::size_t> known;
};
ProcessFile& process_file() { return device::immortal<ProcessFile>(); }

template <typename Function>
Function* look(const char* name) {
  return device::Symbol{dlsym(RTLD_DEFAULT, name)};
}

/// List that a function of the platform writes as JSON; empty where the process has not that
/// library.
std::string list_of(const char* name) {
  Text* const function = look<Text>(name);
  return function == nullptr ? "[]" : device::text_of(function);
}

std::string event(const Answer& answer) {
  return R"({"operation":)" + device::json_string(answer.operation) + R"(,"answer":)" +
         device::json_string(answer.text) + R"(,"decides":)" + (answer.decides ? "true" : "false") +
         R"(,"line":)" + device::json_string(answer.line) + R"(,"count":)" +
         std::to_string(answer.count) + '}';
}

/// Adds workspaces with sizes from a model. PyTorch tries all engines of cuDNN if
/// torch.backends.cudnn.benchmark is on, and the platform does not have them.
void add_modelled(std::vector<std::string>& events) {
  auto* const modelled = look<std::size_t(const char*)>("tidemark_modelled");
  if (modelled == nullptr) return;
  for (const char* library : {"cuDNN", "cuFFT"}) {
    const std::size_t bytes = modelled(library);
    if (bytes == 0) continue;
    std::string digits = std::to_string(bytes);
    for (auto at = std::ssize(digits) - 3; at > 0; at -= 3)
      digits.insert(static_cast<std::size_t>(at), ",");
    const bool tries = library == std::string_view("cuDNN") && at::globalContext().benchmarkCuDNN();
    const std::string text = "that of a model, " + digits + " bytes at most" +
                             (tries ? ", with cudnn.benchmark on: the engines that a GPU tries "
                                      "take more, so that the true peak is higher"
                                    : "");
    events.push_back(event({"size of a workspace", text, library, false, 1}));
  }
}

std::string events() {
  std::vector<std::string> all;
  {
    const std::lock_guard lock(process_file().counting);
    for (const Answer& answer : process_file().answers) all.push_back(event(answer));
  }
  add_modelled(all);
  return device::json_list(all);
}

/// Those of CUDA_VISIBLE_DEVICES, else the numbers of all.
std::vector<std::string> visible_gpus() {
  std::vector<std::string> out;
  auto* const count = look<int(int*)>("cudaGetDeviceCount");
  int devices = 0;
  if (count == nullptr || count(&devices) != 0) return out;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string_view rest = list == nullptr ? "" : list;
  for (int i = 0; i < devices; ++i) {
    const std::size_t comma = rest.find(',');
    std::string name(rest.substr(0, comma));
    std::erase_if(name, [](char letter) { return letter == ' ' || letter == '\t'; });
    out.push_back(list == nullptr ? std::to_string(i) : std::move(name));
    rest = comma == rest.npos ? "" : rest.substr(comma + 1);
  }
  return out;
}

std::string machine() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// The file as a whole, or as it was: 0, or the system's error.
int write(const std::string& place, bool ended) {
  std::vector<std::string> gpus;
  for (const std::string& name : process_file().gpus) gpus.push_back(device::json_string(name));
  auto* const stood_in = look<std::uint64_t()>("tidemark_nccl_stood_in");
  const std::string text =
      R"({"pid":)" + std::to_string(getpid()) + R"(,"rank":null)" +  // the record has it
      R"(,"ended":)" + (ended ? "true" : "false") + R"(,"devices":[])" + R"(,"races":)" +
      list_of("tidemark_races_read") + R"(,"collectives":)" + list_of("tidemark_nccl_calls") +
      R"(,"events":)" + events() + R"(,"stood_in":)" +
      std::to_string(stood_in == nullptr ? 0 : stood_in()) + R"(,"host":)" +
      device::json_string(machine()) + R"(,"gpus":)" + device::json_list(gpus) + R"(,"begin_ns":)" +
      std::to_string(process_file().begin_ns) + R"(,"end_ns":)" + std::to_string(system_ns()) + '}';
  const std::string made = place + ".new";
  const int file = create_file(made.c_str());
  if (file < 0) return errno;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t some = ::write(file, text.data() + done, text.size() - done);
    if (some < 0 && errno != EINTR) break;
    if (some > 0) done += static_cast<std::size_t>(some);
  }
  const int error = done == text.size() ? 0 : errno;
  close(file);
  if (error != 0) return error;
  return std::rename(made.c_str(), place.c_str()) == 0 ? 0 : errno;
}

void watch(int number) {
  pthread_setname_np(pthread_self(), "tidemark");
  while (true) {
    std::this_thread::sleep_for(kInterval);
    ProcessFile& file = process_file();
    const std::lock_guard lock(file.writing);
    if (file.ended || file.watch != number) return;
    write(file.place, false);
  }
}

/// Signals are for the program's own threads. The caller has the lock.
void start_watch(ProcessFile& file) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(watch, ++file.watch).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void begin_process_file(const std::string& record) {
  ProcessFile& file = process_file();
  const std::lock_guard lock(file.writing);
  file.place = std::filesystem::path(record).replace_extension(".json");
  file.ended = false;
  file.begin_ns = system_ns();
  file.gpus = visible_gpus();
  start_watch(file);
}

void end_process_file(bool ended) {
  ProcessFile& file = process_file();
  const std::lock_guard lock(file.writing);
  if (file.place.empty()) return;
  const bool goes_on = file.ended && !ended;
  file.ended = ended;
  const int error = write(file.place, ended);
  if (error != 0 && error != ENOENT && ended)  // ENOENT: the command has ended before this process
    std::fprintf(stderr, "tidemark: the record of process %d cannot be written to %s: %s\n",
                 static_cast<int>(getpid()), file.place.c_str(), std::strerror(error));
  if (goes_on) start_watch(file);
}

void leave_process_file() { new (&process_file()) ProcessFile; }

}  // namespace tidemark::recorder

extern "C" [[gnu::visibility("default")]] void tidemark_record_answer(const char* operation,
                                                                      const char* answer,
                                                                      int decides,
                                                                      const char* line) {
  using namespace tidemark::recorder;
  ProcessFile& file = process_file();
  const std::string key =
      std::string(operation) + '\n' + answer + '\n' + (decides != 0 ? '1' : '0') + line;
  const std::lock_guard lock(file.counting);
  const auto [entry, is_new] = file.known.emplace(key, file.answers.size());
  if (is_new) file.answers.push_back({operation, answer, line, decides != 0, 0});
  ++file.answers[entry->second].count;
}
