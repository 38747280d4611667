#include "reports/program/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/record/units.h"
#include "reports/html.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

std::string spare(Bytes bytes) { return fmt::format("{} to spare", bytes_text(bytes)); }

}  // namespace

std::string common_refusal(const ChangesTried& changes) {
  std::string out;
  for (const auto& [name, answer] : changes) {
    if (!answer.contains("refused")) return "";
    const auto why = answer.at("refused").get<std::string>();
    if (out.empty()) out = why;
    if (out != why) return "";
  }
  return out;
}

std::string answer_text(const Json& answer, const ExplainedDevice& of) {
  if (answer.contains("refused")) return "not known: " + answer.at("refused").get<std::string>();
  const auto reserved = answer.at("reserved_peak").get<Bytes>();
  const auto retries = answer.at("retries").get<std::int64_t>();
  const std::string after =
      retries > 0 ? fmt::format(", after {}", plural(retries, "retry", "retries")) : "";
  const bool limited = !answer.at("capacity").is_null();
  if (const Json& out = answer.at("ran_out"); !out.is_null()) {
    const bool same = of.device.oom && out.at("event") == of.device.oom->event;
    return fmt::format(
        "no: {}{} asked for with {} free{}",
        same ? "the same request fails, "
             : fmt::format("it fails after {}, ",
                           plural(answer.at("allocations").get<std::int64_t>(), "allocation")),
        bytes_text(out.at("wanted").get<Bytes>()), bytes_text(out.at("device_free").get<Bytes>()),
        after);
  }
  if (const auto again = answer.at("refused_again").get<int>();
      again > 0 && answer.at("served_refused").is_null())
    return fmt::format("no: {} as recorded{}",
                       again == 1 ? "the same request fails" : "the same requests fail", after);
  const std::string until =
      answer.at("served_refused").is_null() ? "" : ", up to the request that failed";
  if (!limited) return fmt::format("{} reserved at most{}", bytes_text(reserved), until);
  const auto capacity = answer.at("capacity").get<Bytes>();
  return fmt::format("yes{}: {}{}", until, spare(capacity - reserved), after);
}

std::vector<std::vector<std::string>> changes_table(const ChangesTried& changes,
                                                    const ExplainedDevice& of) {
  std::vector<std::vector<std::string>> rows{{"change", "fits", "reserved at most"}};
  for (const auto& [name, answer] : changes) {
    const bool known = !answer.contains("refused");
    rows.push_back({name, answer_text(answer, of),
                    known ? figure_cell(answer.at("reserved_peak").get<Bytes>()) : ""});
  }
  return rows;
}

std::vector<std::string> assumptions(const ChangesTried& changes, const ExplainedDevice& of) {
  std::vector<std::string> out;
  Bytes before = 0, capacity = 0;
  std::size_t forced = 0, held = 0;
  Bytes forced_bytes = 0;
  bool any = false, fraction = false, edits = false, until = false;
  for (const auto& [name, answer] : changes) {
    if (answer.contains("refused")) continue;
    any = true;
    before = answer.at("bytes_before").get<Bytes>();
    forced = answer.at("forced_frees").get<std::size_t>();
    forced_bytes = answer.at("forced_bytes").get<Bytes>();
    if (answer.at("retries").get<std::int64_t>() > 0)
      held = std::max(held, answer.at("held_frees").get<std::size_t>());
    if (!answer.at("capacity").is_null()) capacity = answer.at("capacity").get<Bytes>();
    fraction |= name.find("garbage_collection") != name.npos && name.find("fraction") == name.npos;
    edits |= !answer.at("edits").empty();
    until |= name.ends_with("until backward");
  }
  if (!any) return out;
  out.push_back(fmt::format(
      "the recorded allocations and frees are made again in PyTorch's own allocator{}; frees that "
      "waited for another stream come back at the recorded place, and new segments lie where "
      "Linux's driver puts them",
      capacity > 0 ? fmt::format(", which can have {}", bytes_text(capacity)) : ""));
  if (of.device.oom)
    out.emplace_back("what the program asks for after the request that failed is not recorded");
  if (of.device.oom && of.settings.find("roundup_power2_divisions") != of.settings.npos)
    out.emplace_back(
        "the request that failed is recorded as roundup_power2_divisions rounded it: it may have "
        "been smaller, and more is to spare then");
  if (of.device.oom && capacity == 0)
    out.emplace_back(
        "the device had room for the request that failed, so the process has a limit of its own (a "
        "memory fraction), which the file does not have: --capacity names it");
  if (held > 0)
    out.push_back(fmt::format(
        "a retry waits for all streams: after it some of {} that waited for a stream may come back "
        "earlier than recorded",
        plural(static_cast<std::int64_t>(held), "free")));
  if (before > 0)
    out.push_back(
        fmt::format("a setting holds from the begin of the history on: the {} that were reserved "
                    "before it stay "
                    "as they are",
                    bytes_text(before)));
  if (forced > 0)
    out.push_back(fmt::format(
        "{} of {} may have come back because an allocation waited for them: under another setting "
        "they may come back later",
        plural(static_cast<std::int64_t>(forced), "free"), bytes_text(forced_bytes)));
  if (edits) out.emplace_back("an edit changes nothing but the named blocks");
  if (until)
    out.emplace_back(
        "'until backward' gives the blocks back when the backward begins, and takes them again in "
        "it, part by part: each before the first of its blocks is freed; a part is one run of the "
        "line, as far as its stacks repeat");
  if (fraction)
    out.emplace_back(
        "garbage_collection_threshold takes effect with per_process_memory_fraction alone");
  return out;
}

}  // namespace tidemark
