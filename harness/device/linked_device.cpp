#include "harness/device/linked_device.h"

#include <dlfcn.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/device/settings.h"
#include "harness/virtual/device/control.h"

namespace tidemark {

std::filesystem::path linked_folder() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&tidemark_device_describe), &info);
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

std::string check_linked_settings(const std::string& gpu, const std::string& capacity) {
  return wrong_settings(gpu, capacity, tidemark_device_set_profile, tidemark_device_set_capacity,
                        tidemark_device_error);
}

std::string set_linked_reserve(std::int64_t bytes) {
  return tidemark_device_set_reserve(static_cast<std::uint64_t>(bytes)) == 0
             ? ""
             : tidemark_device_error();
}

LinkedGpu linked_gpu() {
  if (const std::string wrong = tidemark_device_error(); !wrong.empty())
    throw std::runtime_error(wrong);
  std::string text(tidemark_device_describe(nullptr, 0) + 1, '\0');
  tidemark_device_describe(text.data(), text.size());
  text.pop_back();
  const auto description = nlohmann::json::parse(text);
  const std::int64_t capacity = description.at("capacity_bytes");
  return {description.at("profile"), description.at("profile_file"), capacity,
          description.at("total_bytes").get<std::int64_t>() - capacity,
          description.at("for_nccl_bytes")};
}

}  // namespace tidemark
