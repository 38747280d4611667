#include "harness/cli/salvage.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "harness/flight.h"
#include "harness/runner.h"
#include "reports/json.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

std::string name_of_trial(int index) { return fmt::format("trial-{}", index); }

std::optional<Report> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  return parse_report(text.str(), path.string());
}

}  // namespace

Checkpoint::Checkpoint(fs::path session, const RunRecord& run) : session_(std::move(session)) {
  write({run, {}}, "run");
}

// Under another name first: a rank may be killed while it writes.
void Checkpoint::write(const Report& report, const std::string& name) const {
  if (session_.empty()) return;
  const fs::path path = session_ / name, fresh = session_ / (name + ".new");
  std::ofstream(fresh, std::ios::binary) << json_text(report);
  std::error_code ignored;
  fs::rename(fresh, path, ignored);
}

void Checkpoint::begin(const PlannedTrial& planned) {
  TrialRecord record = record_of(*planned.scenario, planned.trial);
  VariantRecord under_way;
  under_way.name = planned.variants.empty() ? "run" : planned.variants.front();
  under_way.error = "did not finish";
  record.variants.push_back(under_way);
  write({{}, {record}}, name_of_trial(count_));
}

void Checkpoint::end(const TrialRecord& trial) { write({{}, {trial}}, name_of_trial(count_++)); }

std::optional<Report> salvage(const fs::path& session, const std::string& how) {
  auto report = read(session / "run");
  if (!report) return std::nullopt;
  for (int i = 0; auto one = read(session / name_of_trial(i)); ++i)
    report->trials.push_back(std::move(one->trials.at(0)));
  if (report->trials.empty()) return std::nullopt;
  for (auto& variant : report->trials.back().variants)
    if (variant.error == "did not finish")
      variant.error = fmt::format("the ranks ended early ({}): {}", how, flight::read(session));
  return report;
}

}  // namespace tidemark
