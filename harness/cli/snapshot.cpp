// tidemark snapshot show|convert
#include "harness/memory/snapshot.h"

#include <fmt/format.h>

#include <memory>

#include "harness/cli/files.h"
#include "harness/memory/analysis.h"
#include "harness/memory/process_record.h"
#include "reports/program/snapshot_page.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

struct SnapshotArguments {
  std::string file, to;
  std::size_t top = 10;
  int protocol = 4;
  Output output;
};

CLI::App* subcommand(CLI::App* parent, const std::shared_ptr<SnapshotArguments>& arguments,
                     const char* name, const char* what) {
  auto* command = parent->add_subcommand(name, what);
  command
      ->add_option("file", arguments->file,
                   "a snapshot: the pickle of torch.cuda.memory._dump_snapshot(), or its JSON; or "
                   "the record of a process under tidemark exec")
      ->required();
  return command;
}

Snapshot read(const std::string& file) {
  return file.ends_with(".record") ? record_snapshot(file) : read_snapshot(file);
}

int show(const SnapshotArguments& a) {
  a.output.check();
  Snapshot snapshot = read(a.file);
  if (a.output.format == "html") {
    a.output.deliver(snapshot_page(std::move(snapshot), a.file, a.top, a.output.out), a.file);
    return 0;
  }
  const Named named{a.file, snapshot};
  a.output.deliver(
      a.output.format == "json" ? snapshot_summary_json(named) : snapshot_text(named, a.top),
      a.file);
  return 0;
}

int convert(const SnapshotArguments& a) {
  a.output.check();
  if (a.to == "pickle" && a.output.out.empty())
    throw std::runtime_error("--to pickle needs --out FILE: a pickle is binary");
  const Snapshot snapshot = read(a.file);
  try {
    a.output.deliver(
        [&](const Put& put) {
          if (a.to == "json") return write_json(snapshot, put);
          if (a.to == "pickle") return write_pickle(snapshot, put, a.protocol);
          write_perfetto(snapshot, put);
        },
        fmt::format("{} as {}", a.file, a.to));
  } catch (const SnapshotError& error) {
    throw SnapshotError(a.file + ": " + error.what());
  }
  return 0;
}

}  // namespace

void add_snapshot(CLI::App& app, Act& act) {
  auto* parent = app.add_subcommand(
      "snapshot", "read PyTorch memory snapshots of any program; no code in them is run");
  parent->require_subcommand(1);
  parent->footer("exit codes: 0, 2 bad input");
  auto arguments = std::make_shared<SnapshotArguments>();
  auto* one = subcommand(parent, arguments, "show",
                         "print the peak, what was alive there, pending frees, and fragmentation");
  one->add_option("--top", arguments->top, "number of lines of each kind")->capture_default_str();
  arguments->output.add(one, {"text", "json", "html"});
  one->callback([arguments, &act] { act = [arguments] { return show(*arguments); }; });

  auto* two = subcommand(parent, arguments, "convert",
                         "convert a snapshot to JSON, Perfetto or another pickle");
  two->add_option("--to", arguments->to, "json, perfetto or pickle")
      ->required()
      ->check(CLI::IsMember({"json", "perfetto", "pickle"}));
  two->add_option("--protocol", arguments->protocol, "protocol of the pickle: 2, 3 or 4")
      ->check(CLI::Range(2, 4))
      ->capture_default_str();
  two->add_option("--out", arguments->output.out, "write to this file instead of the terminal");
  two->add_flag("--force", arguments->output.force, "let --out replace a file");
  two->callback([arguments, &act] { act = [arguments] { return convert(*arguments); }; });
}

}  // namespace tidemark
