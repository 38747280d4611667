// Files of the format "safetensors" (huggingface/safetensors, README "Format"): eight bytes with
// the length of a JSON header (little-endian), the header, the elements. Python reads them with
// safetensors.numpy.load_file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

struct StoredTensor {
  std::string name;
  std::string dtype;                // "F64", "F32", "BF16"
  std::vector<std::int64_t> shape;  // row by row
  std::string bytes;                // the elements, little-endian
  std::int64_t size() const;        // elements
};
struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;
};

/// Bytes of an element, 0 for a type that is not known here.
std::int64_t element_bytes(std::string_view dtype);

/// The elements begin at a multiple of eight. Throws std::logic_error where two tensors have one
/// name, or one has other bytes than its shape says.
std::string safetensors_text(const Safetensors& file);

/// Throws std::runtime_error ("where: ...") for what is no such file, has a hole or is cut off.
Safetensors parse_safetensors(std::string_view text, const std::string& where);

}  // namespace tidemark
