#include "reports/numbers/safetensors.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <stdexcept>
#include <utility>

#include "harness/record/json_node.h"
#include "harness/record/units.h"
#include "harness/virtual/device/nesting.h"

namespace tidemark {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie");

using Json = nlohmann::ordered_json;

constexpr std::size_t kLength = 8;  // bytes of the header's length
constexpr const char* kMetadata = "__metadata__";
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr std::array<std::pair<std::string_view, std::int64_t>, 3> kTypes{
    {{"F64", 8}, {"F32", 4}, {"BF16", 2}}};

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t size = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && size > kMostElements / extent)) return -1;
    size *= extent;
  }
  return size;
}

StoredTensor tensor(const std::string& name, const Node& node, std::string_view elements,
                    std::size_t& at) {
  StoredTensor out{name, node["dtype"].text(), list<std::int64_t>(node["shape"], integer), {}};
  const std::int64_t each = element_bytes(out.dtype);
  if (each == 0) node.fail("has elements of type " + out.dtype + ", not F64, F32 or BF16");
  const std::int64_t size = product(out.shape);
  const auto offsets = list<std::int64_t>(node["data_offsets"], integer);
  if (size < 0 || offsets.size() != 2 || offsets[0] != static_cast<std::int64_t>(at) ||
      offsets[1] - offsets[0] != size * each)
    node.fail("its shape, type and data_offsets do not fit each other, or leave a hole");
  const auto bytes = static_cast<std::size_t>(size * each);
  if (bytes > elements.size() - at) node.fail("is cut off");
  out.bytes = elements.substr(at, bytes);
  at += bytes;
  return out;
}

}  // namespace

std::int64_t StoredTensor::size() const { return product(shape); }

std::int64_t element_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kTypes)
    if (name == dtype) return bytes;
  return 0;
}

std::string safetensors_text(const Safetensors& file) {
  Json header{{kMetadata, Json(file.metadata)}};
  std::size_t at = 0;
  for (const StoredTensor& each : file.tensors) {
    if (each.size() * element_bytes(each.dtype) != static_cast<std::int64_t>(each.bytes.size()))
      throw std::logic_error(each.name + " has other bytes than its shape and type say");
    if (header.contains(each.name)) throw std::logic_error("two tensors are named " + each.name);
    header[each.name] = {{"dtype", each.dtype},
                         {"shape", each.shape},
                         {"data_offsets", {at, at + each.bytes.size()}}};
    at += each.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length =
      std::bit_cast<std::array<char, kLength>>(static_cast<std::uint64_t>(text.size()));
  std::string out(length.begin(), length.end());
  out.reserve(kLength + text.size() + at);
  out += text;
  for (const StoredTensor& each : file.tensors) out += each.bytes;
  return out;
}

namespace {

Safetensors parse(std::string_view text, const std::string& where) {
  std::array<char, kLength> length{};
  text.copy(length.data(), kLength);
  const auto header = std::bit_cast<std::uint64_t>(length);
  if (text.size() < kLength || header > text.size() - kLength)
    throw std::runtime_error(where + ": is cut off, or not a safetensors file");
  text.remove_prefix(kLength);
  const auto json = json_of_others(text.substr(0, header), where);
  if (!json || !json->root().is_object())
    throw std::runtime_error(where +
                             ": its header is not a JSON object: it is not a safetensors file");
  text.remove_prefix(header);
  Safetensors file;
  std::size_t at = 0;
  Node(json->root(), where).members([&](const std::string& name, const Node& member) {
    if (name == kMetadata)
      member.members(
          [&](const std::string& key, const Node& value) { file.metadata[key] = value.text(); });
    else
      file.tensors.push_back(tensor(name, member, text, at));
  });
  if (at != text.size())
    throw std::runtime_error(
        fmt::format("{}: has {} bytes after its last tensor", where, text.size() - at));
  return file;
}

}  // namespace

Safetensors parse_safetensors(std::string_view text, const std::string& where) {
  try {
    return parse(text, where);
  } catch (const std::runtime_error& error) {  // may quote what is in the file
    throw std::runtime_error(one_line(error.what()));
  }
}

}  // namespace tidemark
