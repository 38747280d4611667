// For the tests of the operator layer.
#pragma once

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <string_view>

#include "harness/virtual/device/testing.h"
#include "harness/virtual/operators/layer.h"

namespace tidemark::operators {

/// The mode of the layer and that of the device.
inline void enter(const char* mode) {
  ASSERT_EQ(tidemark_layer_install(mode), 0) << tidemark_layer_error();
  const std::string_view name = mode;
  tidemark_device_set_data(name == "math" ? 1 : name == "known" ? 2 : 0);
}

/// Message of the call's exception; "" without one.
inline std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Expects that the call throws an error with this text.
inline void expect_error(const std::string& text, const std::function<void()>& call) {
  EXPECT_THAT(message(call), testing::HasSubstr(text));
}

inline at::TensorOptions cuda(at::ScalarType type = at::kFloat) {
  return at::TensorOptions().device(c10::kCUDA).dtype(type);
}

}  // namespace tidemark::operators
