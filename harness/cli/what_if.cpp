#include "harness/cli/what_if.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "harness/cli/boundary.h"
#include "harness/cli/files.h"
#include "harness/cli/replay_before.h"
#include "harness/cli/replayed_allocator.h"
#include "harness/device/platform.h"
#include "harness/device/platforms.h"
#include "harness/memory/edit.h"
#include "harness/memory/rewind.h"
#include "harness/memory/stack_phases.h"
#include "harness/memory/workload.h"
#include "harness/print.h"
#include "harness/record/budget.h"
#include "harness/record/one_line.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
using What = AllocatorRequest::What;

/// Frees that another stream holds back, as streams that hold them until the recorded moment:
/// those of a stream come back in the order in which they were freed.
struct Holders {
  struct Place {
    std::size_t holder = 0;
    std::uint64_t number = 0;  // of the frees of that holder, from 1
  };
  std::vector<Place> of;  // by request: of a free, and of its block's coming back
  std::size_t count = 0;

  explicit Holders(const std::vector<AllocatorRequest>& requests) : of(requests.size()) {
    std::unordered_map<std::int64_t, std::size_t> frees;  // by address
    std::vector<std::size_t> back(requests.size(), SIZE_MAX);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].what == What::free) frees[requests[i].address] = i;
      if (requests[i].what != What::come_back) continue;
      if (const auto free = frees.find(requests[i].address); free != frees.end()) {
        back[free->second] = i;
        frees.erase(free);
      }
    }
    struct Holder {
      std::size_t last = 0;  // until when it holds
      std::uint64_t number = 0;
    };
    std::vector<Holder> holders;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].what != What::free) continue;
      std::size_t best = SIZE_MAX;
      for (std::size_t k = 0; k < holders.size(); ++k)
        if (holders[k].last <= back[i] &&
            (best == SIZE_MAX || holders[k].last > holders[best].last))
          best = k;
      if (best == SIZE_MAX) best = holders.size(), holders.emplace_back();
      holders[best].last = back[i];
      of[i] = {best, ++holders[best].number};
      if (back[i] != SIZE_MAX) of[back[i]] = of[i];
    }
    count = holders.size();
  }
};

class Trial {
 public:
  Trial(const Snapshot& snapshot, std::size_t device, const WhatIf& asked)
      : snapshot_(snapshot),
        device_(device),
        asked_(asked),
        settings_(changed_settings(snapshot, asked.settings)),
        before_(memory_before(snapshot, device)),
        workload_(workload_of(snapshot, device, before_)),
        edits_(edited()),
        room_(room()),
        limit_(room_),
        holders_(workload_.requests),
        allocator_(before_.segments, snapshot.traces[device]) {
    if (before_.unsure > 0)
      throw SnapshotError(
          fmt::format("has {} from before its trace that may have been longer than "
                      "requested: what is free beside them is not known",
                      plural(static_cast<std::int64_t>(before_.unsure), "block")));
  }

  Json run() {
    live_ = build(allocator_, before_, snapshot_.traces[device_]);
    allocator_.use(settings_.all_text());
    allocator_.limit(room_);
    if (settings_.fraction > 0) {
      if (asked_.gpu.empty())
        throw std::runtime_error(
            "per_process_memory_fraction is a part of the GPU's memory: name "
            "the GPU with --gpu");
      if (settings_.fraction > 1)
        throw std::runtime_error("per_process_memory_fraction is above 1");
      // PyTorch's own base: what the GPU has, with what PyTorch cannot have of it.
      set_capacity(0);
      const auto whole = static_cast<double>(device_properties().totalGlobalMem);
      allocator_.limit(room_);
      limit_ = std::min(room_, static_cast<Bytes>(settings_.fraction * whole));
      allocator_.set_fraction(settings_.fraction);  // of what the GPU has, whatever the room
    }
    allocator_.hold(holders_.count);
    Json out{{"ran_out", nullptr}, {"served_refused", nullptr}, {"refused_again", 0}};
    for (std::size_t i = 0; i < workload_.requests.size(); ++i)
      if (!serve(i, out)) break;
    const ReplayedAllocator::Figures figures = allocator_.figures();
    out.update({{"allocations", allocations_},
                {"reserved_peak", figures.reserved_peak},
                {"reserved", figures.reserved},
                {"allocated_peak", figures.allocated_peak},
                {"active_peak", figures.active_peak},
                {"retries", figures.retries},
                {"capacity", limit_ > 0 ? Json(limit_) : Json(nullptr)},
                {"forced_frees", workload_.forced},
                {"held_frees", held_frees()},
                {"forced_bytes", workload_.forced_bytes},
                {"blocks_before", blocks_before()},
                {"bytes_before", bytes_before()},
                {"edits", edits_}});
    return out;
  }

 private:
  Json edited() {
    Json out = Json::array();
    for (const std::string& text : asked_.edits) {
      const Edited one = apply(parse_edit(text), snapshot_, device_, workload_);
      out.push_back({{"edit", text},
                     {"blocks", one.blocks},
                     {"bytes", one.bytes},
                     {"recomputed", one.recomputed}});
    }
    return out;
  }

  Bytes room() const {
    if (asked_.gpu.empty()) return asked_.capacity;
    if (const std::string wrong = platform().check_settings(asked_.gpu, ""); !wrong.empty())
      throw std::runtime_error(wrong);
    return asked_.capacity > 0 ? asked_.capacity : virtual_device()->profile_capacity();
  }

  std::size_t held_frees() const {
    return static_cast<std::size_t>(
        std::ranges::count(workload_.requests, What::free, &AllocatorRequest::what));
  }

  std::size_t blocks_before() const {
    std::size_t out = 0;
    for (const Segment& segment : before_.segments)
      for (const MemoryBlock& block : segment.blocks) out += block.state != BlockState::inactive;
    return out;
  }
  Bytes bytes_before() const {
    Bytes out = 0;
    for (const Segment& segment : before_.segments) out += segment.total_size;
    return out;
  }

  /// False where the recording says nothing of what comes then.
  bool serve(std::size_t i, Json& out) {
    const AllocatorRequest& one = workload_.requests[i];
    switch (one.what) {
      case What::take:
      case What::refused:
        return take(one, out);
      case What::free:
        if (const auto block = live_.find(one.address); block != live_.end()) {
          allocator_.give_later(block->second, holders_.of[i].holder);
          live_.erase(block);
        }
        return true;
      case What::come_back:
        if (const auto block = live_.find(one.address); block != live_.end()) {
          allocator_.give(block->second);
          live_.erase(block);
        } else if (holders_.of[i].number > 0) {
          allocator_.come_back(holders_.of[i].holder, holders_.of[i].number);
        }
        return true;
      case What::empty_cache:
        allocator_.release();
        return true;
    }
    return true;
  }

  bool take(const AllocatorRequest& one, Json& out) {
    void* block = nullptr;
    try {
      block = allocator_.take({one.bytes, one.stream, one.pool, settings_.expandable});
    } catch (const c10::OutOfMemoryError&) {
      if (one.what == What::refused) {  // as recorded, and the program went on as recorded
        out["refused_again"] = out["refused_again"].get<int>() + 1;
        return true;
      }
      if (room_ == 0)
        throw SnapshotError(fmt::format("asks for more than the {} that are tried without a limit",
                                        bytes_text(ReplayedAllocator::kNoLimit)));
      out["ran_out"] = {
          {"event", one.event},
          {"wanted", one.bytes},
          {"device_free", std::min(allocator_.device_free(),
                                   std::max<Bytes>(limit_ - allocator_.figures().reserved, 0))}};
      return false;
    }
    if (one.what == What::refused) {
      out["served_refused"] = {{"event", one.event}, {"wanted", one.bytes}};
      return false;
    }
    ++allocations_;
    live_[one.address] = block;
    return true;
  }

  const Snapshot& snapshot_;
  const std::size_t device_;
  const WhatIf& asked_;
  const AllocatorSettings settings_;
  const MemoryBefore before_;
  Workload workload_;
  const Json edits_;
  const Bytes room_;  // of the device; 0: no limit
  Bytes limit_;       // that the allocator can have of it
  const Holders holders_;
  ReplayedAllocator allocator_;
  LiveBlocks live_;
  std::size_t allocations_ = 0;
};

/// The answer, by a process that has made no allocator yet.
std::string answer(const Snapshot& snapshot, std::size_t device, const WhatIf& asked) {
  std::string refused;
  try {
    return Trial(snapshot, device, asked).run().dump();
  } catch (const c10::Error& error) {
    refused = one_line(error.what_without_backtrace());
  } catch (...) {
    refused = one_line(told(std::current_exception(), 2).line);
  }
  return Json{{"refused", refused}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Json what_if(const Snapshot& snapshot, std::size_t device, const WhatIf& asked) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) throw std::runtime_error("explain: the system gives no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("explain: the system gives no process");
  if (child == 0) {
    close(pipe_ends[0]);
    const std::string text = answer(snapshot, device, asked);
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t wrote = write(pipe_ends[1], text.data() + done, text.size() - done);
      if (wrote <= 0 && errno != EINTR) break;
      done += wrote > 0 ? static_cast<std::size_t>(wrote) : 0;
    }
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string text;
  char some[4096];
  for (ssize_t got; (got = read(pipe_ends[0], some, sizeof some)) != 0;) {
    if (got > 0) text.append(some, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  close(pipe_ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const Json out = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (status != 0 || out.is_discarded())
    return {
        {"refused",
         fmt::format("the process that asked PyTorch's allocator ended early{}",
                     WIFSIGNALED(status) ? fmt::format(" (signal {})", WTERMSIG(status)) : "")}};
  return out;
}

void add_what_if(CLI::App& app, Act& act) {
  auto* command =
      app.get_subcommand("snapshot")
          ->add_subcommand("what-if", "answer `tidemark explain` by PyTorch's allocator");
  command->group("");  // explain calls it
  auto file = std::make_shared<std::string>(), cases = std::make_shared<std::string>();
  auto device = std::make_shared<std::optional<std::size_t>>();
  command->add_option("file", *file)->required();
  command->add_option("--cases", *cases)->required();
  command->add_option("--device", *device);
  command->callback([file, cases, device, &act] {
    act = [file, cases, device] {
      Snapshot snapshot = read_snapshot(*file);
      tell_from_stacks(snapshot);
      end_budget();  // PyTorch's allocator takes its time
      if (virtual_device() == nullptr)
        throw std::runtime_error(
            "explain: needs the virtual device, and this process has NVIDIA's libraries");
      try {
        const std::size_t traced = traced_device(snapshot, *device);
        Json out = Json::array();
        for (const Json& one : Json::parse(*cases))
          out.push_back(what_if(snapshot, traced,
                                {one.at("settings"), one.at("edits"), one.at("gpu"),
                                 one.at("capacity").get<Bytes>()}));
        print(stdout, "{}\n", out.dump());
      } catch (const SnapshotError& error) {
        throw SnapshotError(*file + ": " + error.what());
      } catch (const Json::exception&) {
        throw std::runtime_error("snapshot what-if: --cases is a list that explain writes");
      }
      return 0;
    };
  });
}

}  // namespace tidemark
