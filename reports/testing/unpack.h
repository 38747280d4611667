// Reader of the data that a report's page carries.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tidemark {

/// Throws std::runtime_error where the page holds no data that can be unpacked.
nlohmann::ordered_json unpacked_page_data(const std::string& page);

}  // namespace tidemark
