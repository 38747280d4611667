#include "harness/fit/gpus.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/device/linked_device.h"
#include "harness/errors.h"
#include "harness/record/file.h"
#include "harness/record/number.h"
#include "harness/record/units.h"
#include "harness/virtual/device/text.h"

namespace tidemark {

Gpu find_gpu(const std::string& name, const std::optional<Bytes>& reserve,
             const std::optional<Bytes>& capacity) {
  if (const std::string wrong = check_linked_settings(name, ""); !wrong.empty())
    throw UsageError("fit: " + wrong);
  const auto profile = nlohmann::json::parse(read_bytes(linked_gpu().file, "", 1 << 20));
  Gpu gpu;
  FitGpu& memory = gpu.memory;
  memory.name = name;
  gpu.chip = profile.at("chip").dump();
  const auto figure = [&](const char* key, Bytes& bytes, std::string& source) {
    const nlohmann::json& one = profile.at("torch").at(key);
    bytes = one.at("value").get<Bytes>();
    source = one.at("source").get<std::string>();
  };
  if (profile.contains("torch")) {
    figure("total_bytes", memory.total, memory.total_source);
    figure("context_bytes", memory.context, memory.context_source);
    figure("nccl_bytes", memory.nccl, memory.nccl_source);
  } else {  // a profile of the user's
    memory.total = profile.at("memory").at("bytes").at("value").get<Bytes>();
    memory.total_source = memory.context_source = memory.nccl_source =
        "the profile does not say what PyTorch can use: nothing is left out";
  }
  if (capacity) {
    memory.total = *capacity, memory.total_source = "--capacity";
    memory.context = memory.nccl = 0;
    memory.context_source = memory.nccl_source = "--capacity";
  }
  if (reserve) {
    memory.context = *reserve, memory.nccl = 0;
    memory.context_source = memory.nccl_source = "--reserve";
  }
  if (memory.capacity(true) <= 0)
    throw UsageError(
        fmt::format("fit: --reserve leaves nothing of {} ({})", name, bytes_text(memory.total)));
  return gpu;
}

void read_prices(const std::string& file, std::vector<Gpu>& gpus) {
  std::string text;
  try {
    text = read_bytes(file, "", 1 << 20);
  } catch (const std::runtime_error& error) {
    throw UsageError(std::string("fit: --prices ") + error.what());
  }
  TextIn in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    TextIn words(line.substr(0, line.find('#')));
    std::string name, price_text, more;
    if (!(words >> name)) continue;
    words >> price_text;
    const auto price = parse_number(price_text);
    if (!price || *price <= 0 || words >> more)
      throw UsageError(fmt::format(
          "fit: --prices {} line {}: write a GPU and its price an hour, as in h100-80g 2.5", file,
          number));
    for (Gpu& gpu : gpus)
      if (gpu.memory.name == name) gpu.memory.price = *price;
  }
}

}  // namespace tidemark
