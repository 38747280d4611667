// Every reader of files that others may have made, fed with bytes: as a test (the corpus, damage to
// it, and memory that ends at any allocation), and for libFuzzer (ci/fuzz; -DTIDEMARK_FUZZER).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cli/boundary.h"
#include "harness/cli/salvage.h"
#include "harness/cli/tests.h"
#include "harness/device/linked_device.h"
#include "harness/errors.h"
#include "harness/exec/job.h"
#include "harness/exec/project.h"
#include "harness/fit/cache.h"
#include "harness/fit/config_file.h"
#include "harness/fit/gpus.h"
#include "harness/memory/process_record.h"
#include "harness/memory/snapshot.h"
#include "harness/record/budget.h"
#include "harness/record/file.h"
#include "harness/record/gzip.h"
#include "harness/record/json.h"
#include "harness/record/json_document.h"
#include "harness/record/write.h"
#include "harness/virtual/device/cubin.h"
#include "harness/virtual/device/image.h"
#include "harness/virtual/device/nesting.h"
#include "reports/compare/benchmarks.h"
#include "reports/compare/compare.h"
#include "reports/compare/render.h"
#include "reports/curves/curve.h"
#include "reports/curves/parity.h"
#include "reports/events/compare_events.h"
#include "reports/history/history.h"
#include "reports/html.h"
#include "reports/numbers/numbers.h"
#include "reports/renderings.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// A folder that one process uses again and again.
const fs::path& scratch() {
  static const fs::path folder = [] {
    std::string name = fs::temp_directory_path() / "tidemark-readers-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    std::atexit([] {
      std::error_code ignored;
      fs::remove_all(scratch(), ignored);
    });
    return fs::path(name);
  }();
  return folder;
}

fs::path as_file(std::string_view bytes, const std::string& name) {
  const fs::path path = scratch() / name;
  fs::create_directories(path.parent_path());
  write_bytes(path, bytes);
  return path;
}

void read_reports(std::string_view bytes) {
  const Report report = parse_report(bytes, "report.json");
  text_of(report), markdown(report), junit(report), html(report);
  compare(report, report, {});
  parse_report(whole(head_text(report)), "again");
}

void read_benchmarks(std::string_view bytes) {
  const Benchmarks file = parse_benchmarks(bytes, "benchmark.json");
  compare(file, file, {});
}

void read_snapshots(std::string_view bytes) {
  const Snapshot snapshot = parse_snapshot(bytes, "snapshot");
  perfetto(snapshot);
  parse_snapshot(pickle(snapshot), "again");
  parse_snapshot(snapshot_json(snapshot), "again");
}

void read_records(std::string_view bytes) {
  const fs::path file = as_file(bytes, "of.record");
  record_figures(file);
  const Snapshot snapshot = record_snapshot(file);
  parse_snapshot(pickle(snapshot), "again");
}

void read_losses(std::string_view bytes) {
  const CurveFile file = read_curves(as_file(bytes, "losses"));  // which unpacks it
  for (const Curve* curve : select(file, "")) parity(*curve, *curve, {});
}

// As cuModuleLoad does it.
void read_code(std::string_view bytes) {
  const std::string code(bytes);
  if (!device::is_code_file(code)) throw std::runtime_error("no file of code");
  for (const int capability : {75, 90, 121}) device::choose_image(code.c_str(), capability);
  device::kernels_of(code.c_str());
}

void read_profiles(std::string_view bytes) {
  const std::string wrong = check_linked_settings(as_file(bytes, "gpu.json"), "");
  if (!wrong.empty()) throw std::runtime_error(wrong);
}

void read_jobs(std::string_view bytes) {
  const Job job(as_file(bytes, "job/job").parent_path());
  job.report();
}

void read_checkpoints(std::string_view bytes) {
  for (const char* name : {"plan", "trial-0"}) as_file(bytes, std::string("run/") + name);
  salvage(scratch() / "run", {"ended", false});
}

void read_fits(std::string_view bytes) {
  as_file(bytes, "cache/run.json");
  cached_run(scratch() / "cache", "run", {});
}

void read_recordings(std::string_view bytes) {
  const auto logs = read_events(as_file(bytes, "recording.json"));
  compare_events(logs, logs);
}

void read_tests(std::string_view bytes) {
  const fs::path folder = as_file(bytes, std::string("tests/") + kTests).parent_path();
  fs::remove(folder / "report.json");
  finish_tests(folder);
}

/// Every value of a text, whatever it means.
void read_values(const JsonValue& value) {
  value.type_name(), value.source();
  if (value.is_string()) value.text();
  if (value.is_number()) value.number(), value.natural(), value.integer();
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i) read_values(value[i]);
  if (value.is_object())
    for (std::size_t i = 0; i < value.size(); ++i)
      value.find(value.key(i)), read_values(value.member(i));
}

void read_json(std::string_view bytes) {
  if (const auto json = json_of_others(bytes, "text")) return read_values(json->root());
  throw std::runtime_error("text: is not JSON");
}

void read_projects(std::string_view bytes) {
  project_settings(as_file(bytes, "project/pyproject.toml").parent_path());
  words_of_config(scratch() / "project/pyproject.toml");
}

const std::map<std::string, std::function<void(std::string_view)>>& readers() {
  static const std::map<std::string, std::function<void(std::string_view)>> all{
      {"benchmarks", read_benchmarks},
      {"checkpoint", read_checkpoints},
      {"cubin", read_code},
      {"events", read_recordings},
      {"fit", read_fits},
      {"history",
       [](std::string_view bytes) { read_history(as_file(bytes, "history.sqlite"), {}); }},
      {"job", read_jobs},
      {"json", read_json},
      {"losses", read_losses},
      {"numbers", [](std::string_view bytes) { parse_numbers(bytes, "numbers"); }},
      {"prices",
       [](std::string_view bytes) {
         std::vector<Gpu> gpus(1);
         read_prices(as_file(bytes, "prices"), gpus);
       }},
      {"profile", read_profiles},
      {"ptx", read_code},
      {"pyproject", read_projects},
      {"record", read_records},
      {"report", read_reports},
      {"snapshot", read_snapshots},
      {"tests", read_tests},
  };
  return all;
}

/// The refusal of one line that an input gets, "" where it is read; all other exceptions go on.
std::string refusal_of(const std::function<void(std::string_view)>& read, std::string_view bytes) {
  const Budget budget;
  try {
    read(bytes);
    return "";
  } catch (const Overspent& error) {
    return error.what();
  } catch (const fs::filesystem_error&) {  // a system_error's text is no line of ours
    throw;
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace
}  // namespace tidemark

#ifdef TIDEMARK_FUZZER

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tidemark;
  static const auto& read = []() -> const auto& {
    const char* name = std::getenv("TIDEMARK_FUZZ");
    const auto reader = readers().find(name == nullptr ? "" : name);
    if (reader == readers().end()) std::abort();
    return reader->second;
  }();
  refusal_of(read, {reinterpret_cast<const char*>(data), size});
  return 0;
}

#else

#include <gtest/gtest.h>

#include <random>

#include "harness/record/fit_fields.h"
#include "harness/record/json_writer.h"
#include "reports/numbers/sample.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

// TIDEMARK_APPROVE=1 writes what tidemark itself writes into the corpus.
TEST(Corpus, HasWhatIsWritten) {
  const fs::path corpus = TIDEMARK_CORPUS;
  if (std::getenv("TIDEMARK_APPROVE") != nullptr) {
    FitRun run;
    run.values = {{"batch", "4"}}, run.gpu = "h100-80g";
    record_run(scratch() / "night", small_report());
    const nlohmann::ordered_json recording{{"schema", "tidemark/measured"},
                                           {"schema_version", "2.0"},
                                           {"traces", {json_of(filled_report().trials.front())}}};
    std::string tests;
    for (const TrialRecord& trial : tests_report().trials)
      tests += nlohmann::ordered_json{{"trial", json_of(trial)}}.dump() + "\n";
    tests += nlohmann::ordered_json{{"run", json_of(tests_report().run)}}.dump() + "\n";
    write_files(corpus, {{"numbers/of.safetensors", numbers_file(numbers_sample())},
                         {"fit/run.json", json_text(json_of(run))},
                         {"events/recording.json", json_text(recording)},
                         {"tests/tests.jsonl", tests},
                         {"history/of.sqlite", read_bytes(scratch() / "history.sqlite")}});
  }
  for (const auto& [name, read] : readers()) EXPECT_TRUE(fs::exists(corpus / name)) << name;
}

std::vector<std::string> corpus_of(const std::string& reader) {
  std::vector<std::string> all;
  for (const auto& file : fs::directory_iterator(fs::path(TIDEMARK_CORPUS) / reader))
    all.push_back(read_bytes(file.path()));
  return all;
}

class Readers : public ::testing::TestWithParam<std::string> {
 protected:
  const std::function<void(std::string_view)>& read = readers().at(GetParam());
};

// A file is read, or refused in one line; an exception of another kind fails the test.
TEST_P(Readers, TheCorpusAndDamageToIt) {
  const std::vector<std::string> corpus = corpus_of(GetParam());
  ASSERT_FALSE(corpus.empty());
  std::mt19937 random(7);
  const auto draw = [&](std::size_t below) { return random() % std::max<std::size_t>(below, 1); };
  std::size_t whole = 0;
  for (const std::string& file : corpus) {
    whole += refusal_of(read, file).empty() ? 1 : 0;
    for (int round = 0; round < 60; ++round) {
      std::string damaged = file;
      for (std::size_t changes = 1 + draw(4); changes > 0 && !damaged.empty(); --changes) {
        const std::size_t at = draw(damaged.size());
        switch (draw(4)) {
          case 0:
            damaged[at] = static_cast<char>(random());
            break;
          case 1:
            damaged.resize(at);
            break;
          case 2:
            damaged.insert(at, damaged.substr(draw(damaged.size()), draw(200)));
            break;
          default:
            damaged.erase(at, draw(50));
        }
      }
      const std::string why = refusal_of(read, damaged);
      EXPECT_EQ(why.find('\n'), std::string::npos) << why;
    }
  }
  EXPECT_GT(whole, 0U) << "no file of the corpus is read: all are refused";
}

// Wherever memory ends, the reader ends by that exception, or, where that is thrown while something
// goes (the destructor of a JSON value allocates), by the line and the exit code of the boundary.
TEST_P(Readers, MemoryEndsAtAnyAllocation) {
  const std::string file = corpus_of(GetParam()).front();
  refusal_of(read, file);
  const std::uint64_t before = allocations();
  refusal_of(read, file);
  const std::uint64_t all = allocations() - before, each = std::max<std::uint64_t>(all / 150, 1);
  for (std::uint64_t n = 1; n <= all; n += each) {
    const pid_t child = fork();
    if (child == 0) {
      close(STDERR_FILENO);
      tell_at_terminate();
      fail_allocation(n);
      try {
        refusal_of(read, file);
      } catch (const std::bad_alloc&) {
      }
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3))
        << "allocation " << n << " of " << all << ": status " << status;
  }
  EXPECT_GT(all, 0U);
}

INSTANTIATE_TEST_SUITE_P(Of, Readers, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, read] : readers()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

TEST(Nesting, AtBelowAndAboveItsBound) {
  const auto deep = [](std::size_t depth, std::string_view opening) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += opening;
    return is_too_deep(text + std::string(3, ']') + "[[[");
  };
  for (const char* opening : {"[", "{\"a\":", "[1, \"]\\\"\", "}) {
    EXPECT_FALSE(deep(kDeepestJson, opening)) << opening;
    EXPECT_TRUE(deep(kDeepestJson + 1, opening)) << opening;
  }
  EXPECT_FALSE(is_too_deep("\"" + std::string(5000, '[') + "\""));
  EXPECT_FALSE(is_too_deep(std::string(5000, ']')));
}

// The budget is kept by a reader that shares without end, and by one that allocates nothing.
TEST(Budgets, AreKept) {
  const auto grow = [](std::string_view) {
    std::vector<std::string> all;
    for (;;) all.emplace_back(1 << 20, 'x');
  };
  EXPECT_NE(refusal_of(grow, "").find("MiB of memory, which is the most"), std::string::npos);
  // One that takes much while it goes, and then goes on.
  const auto stubborn = [&](std::string_view) {
    struct Greedy {
      std::unique_ptr<char[]>& kept;
      ~Greedy() { kept.reset(new char[std::size_t{2} << 30]); }  // no page of it is touched
    };
    std::unique_ptr<char[]> kept;
    try {
      const Greedy greedy{kept};
      grow("");
    } catch (const Overspent&) {
    }
    grow("");
  };
  EXPECT_NE(refusal_of(stubborn, "").find("MiB of memory, which is the most"), std::string::npos);
  EXPECT_EXIT(
      {
        const Budget budget(1);
        spend_on("of.json", 10, false);
        for (volatile int i = 0;; i = i + 1) {
        }
      },
      ::testing::ExitedWithCode(2), "error: of.json: takes more than 1 s, which is the most");
}

}  // namespace
}  // namespace tidemark

#endif
