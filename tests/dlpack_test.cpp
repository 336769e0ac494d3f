// SPDX-License-Identifier: MIT
// Views of DLPack structs: those of the C header, written here with its layout, and others of the same member names.

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <swiglu/dlpack.hpp>

using namespace swiglu;

namespace {

// The structs of the C header, version 1.
enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2 };
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
struct DLPackVersion {
  std::uint32_t major, minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, byte_offset) == 40);
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

// What a binding generator has instead: other types, the same names.
namespace other {
enum class kind : unsigned { cpu = 1 };
struct tensor {
  void* data;
  struct {
    kind device_type;
  } device;
  int ndim;
  struct {
    unsigned code, bits, lanes;
  } dtype;
  const std::int64_t* shape;
  const std::int64_t* strides;
  std::uint32_t byte_offset;
};
}  // namespace other

static_assert(dlpack_tensor<DLTensor> && dlpack_tensor<other::tensor> && !dlpack_tensor<DLManagedTensor>);
static_assert(dlpack_managed<DLManagedTensor> && !dlpack_versioned<DLManagedTensor> && !dlpack_managed<DLTensor>);
static_assert(dlpack_versioned<DLManagedTensorVersioned>);
static_assert(!dlpack_tensor<float*> && !dlpack_tensor<tensor<float, 2>>);

using matrix = view<float, dynamic, dynamic>;
using read_only = view<const float, dynamic, dynamic>;

float memory[400];
double doubles[40];

/// A DLTensor and the arrays it points to.
struct example {
  std::vector<std::int64_t> shape, strides;
  DLTensor tensor{};

  explicit example(std::vector<std::int64_t> shape_of, std::vector<std::int64_t> strides_of = {})
      : shape(std::move(shape_of)), strides(std::move(strides_of)) {
    tensor = {.data = memory,
              .device = {kDLCPU, 0},
              .ndim = static_cast<std::int32_t>(shape.size()),
              .dtype = {2, 32, 1},
              .shape = shape.data(),
              .strides = strides.empty() ? nullptr : strides.data(),
              .byte_offset = 0};
  }
  example(const example&) = delete;
  example& operator=(const example&) = delete;
};

/// What from_dlpack says to a tensor that it refuses; `View` is what was asked for.
template <class View = read_only, class D>
std::string refusal(const D& tensor) {
  try {
    from_dlpack<View>(tensor);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a DLTensor with or without strides is a view of the same elements") {
  const example compact({3, 5});
  const matrix m = from_dlpack<matrix>(compact.tensor);
  CHECK(m.rows() == 3);
  CHECK(m.cols() == 5);
  CHECK(m.pitch() == 5);
  CHECK(m.data() == memory);

  example pitched({3, 5}, {7, 1});
  pitched.tensor.byte_offset = 8;
  const auto v = from_dlpack<view<const float, dynamic, 5>>(pitched.tensor);
  CHECK(v.pitch() == 7);
  CHECK(&v(2, 4) == memory + 2 + 2 * 7 + 4);

  const example vector({6}, {1});
  CHECK(from_dlpack<view<float, dynamic>>(vector.tensor).cols() == 6);

  const example cube({2, 3, 5}, {21, 7, 1});
  const auto c = from_dlpack<view<float, 2, dynamic, 5>>(cube.tensor);
  CHECK(c.extent(1) == 3);
  CHECK(&c(1, 2, 4) == memory + 21 + 14 + 4);
}

TEST_CASE("leading extents collapse into the rows of a matrix") {
  const example batch({2, 3, 5}, {15, 5, 1});
  CHECK(from_dlpack<read_only>(batch.tensor).rows() == 6);
  CHECK(from_dlpack<read_only>(batch.tensor).pitch() == 5);
  const example pitched({2, 1, 3, 5}, {24, 99, 8, 1});
  const auto v = from_dlpack<view<const float, dynamic, 5>>(pitched.tensor);
  CHECK(v.rows() == 6);
  CHECK(&v(5, 4) == memory + 5 * 8 + 4);

  const example gap({2, 3, 5}, {16, 5, 1}), permuted({3, 2, 5}, {5, 15, 1});
  CHECK(refusal(gap.tensor) == "swiglu: from_dlpack: stride 0: expected 15, got 16");
  CHECK(refusal(permuted.tensor) == "swiglu: from_dlpack: stride 0: expected 30, got 5");
}

TEST_CASE("strides of extents 0 and 1 do not matter: they are never taken") {
  const example row({1, 5}, {-3, 1}), column({4, 1}, {6, 99}), outer({1, 4, 5}, {0, 6, 1});
  CHECK(from_dlpack<matrix>(row.tensor).cols() == 5);
  CHECK(from_dlpack<matrix>(column.tensor).pitch() == 6);
  CHECK(from_dlpack<matrix>(outer.tensor).pitch() == 6);
  for (example* empty :
       {new example({0, 5}, {-1, 3}), new example({3, 0}, {0, 0}), new example({2, 0, 5}, {1, 1, 1})}) {
    empty->tensor.data = nullptr;
    const matrix m = from_dlpack<matrix>(empty->tensor);
    CHECK(m.rows() * m.cols() == 0);
    delete empty;
  }
}

TEST_CASE("float64, and structs of other types with the same member names") {
  example given({2, 3});
  given.tensor.data = doubles;
  given.tensor.dtype.bits = 64;
  CHECK(from_dlpack<view<double, 2, 3>>(given.tensor).data() == doubles);

  const std::int64_t shape[] = {3, 5}, strides[] = {8, 1};
  const other::tensor t{memory, {other::kind::cpu}, 2, {2, 32, 1}, shape, strides, 4};
  const matrix m = from_dlpack<matrix>(t);
  CHECK(m.data() == memory + 1);
  CHECK(m.pitch() == 8);
}

TEST_CASE("a managed tensor is its tensor; one that may not be written to makes no writable view") {
  example given({3, 5});
  const DLManagedTensor managed{given.tensor, nullptr, nullptr};
  CHECK(from_dlpack<matrix>(managed).data() == memory);

  DLManagedTensorVersioned versioned{{1, 3}, nullptr, nullptr, 0, given.tensor};
  CHECK(from_dlpack<matrix>(versioned).data() == memory);
  versioned.flags = 2;  // a copy: may be written to
  CHECK(from_dlpack<matrix>(versioned).data() == memory);
  versioned.flags = 3;
  CHECK(from_dlpack<read_only>(versioned).data() == memory);
  CHECK(
      refusal<matrix>(versioned) ==
      "swiglu: from_dlpack: access: expected a tensor that may be written to, got a read-only one (view<const T, ...> "
      "takes it)");
  versioned.version.major = 2;
  versioned.dl_tensor.shape = nullptr;  // nothing of an unknown struct is looked at
  CHECK(refusal(versioned) == "swiglu: from_dlpack: major version of the struct: expected 1, got 2");
  versioned.version.major = 0;
  CHECK(refusal(versioned) == "swiglu: from_dlpack: major version of the struct: expected 1, got 0");
}

TEST_CASE("what is no matrix of floats in memory is refused, with one sentence") {
  example t({3, 5}, {7, 1});
  const auto says = [&](const char* sentence) {
    CHECK(refusal(t.tensor) == "swiglu: from_dlpack: " + std::string(sentence));
  };
  t.tensor.device.device_type = kDLCUDA;
  says("device type (1 is the CPU): expected 1, got 2");
  t.tensor.device.device_type = kDLCPU;

  t.tensor.dtype = {4, 16, 1};
  says("dtype: expected float32, got bfloat16");
  t.tensor.dtype = {0, 32, 1};
  says("dtype: expected float32, got int32");
  t.tensor.dtype = {2, 64, 1};
  says("dtype: expected float32, got float64");
  t.tensor.dtype = {17, 8, 1};
  says("dtype: expected float32, got type 17, bits 8");
  t.tensor.dtype = {2, 32, 4};
  says("lanes: expected 1, got 4");
  t.tensor.dtype = {2, 32, 1};

  t.tensor.ndim = 1;
  says("rank: expected at least 2, got 1");
  t.tensor.ndim = 0;
  says("rank: expected at least 2, got 0");
  t.tensor.ndim = -2;
  says("rank: expected at least 2, got -2");
  t.tensor.ndim = 2;
  CHECK(refusal<view<float, dynamic>>(t.tensor) == "swiglu: from_dlpack: rank: expected 1, got 2");
  CHECK(refusal<view<float, 1, 3, 5>>(t.tensor) == "swiglu: from_dlpack: rank: expected 3, got 2");

  t.shape[0] = -3;
  says("extent 0: expected at least 0, got -3");
  t.shape[0] = 3;
  t.strides[1] = 2;
  says("stride 1: expected 1, got 2");
  t.strides[1] = -1;
  says("stride 1: expected 1, got -1");
  t.strides[1] = 1;
  for (const std::int64_t stride : {std::int64_t{4}, std::int64_t{0}, std::int64_t{-7}}) {
    t.strides[0] = stride;
    says(("stride 0: expected at least 5, got " + std::to_string(stride)).c_str());
  }
  t.strides[0] = 7;

  t.tensor.byte_offset = 6;
  says("address of the first element: expected a multiple of 4, got 2 bytes more");
  t.tensor.byte_offset = 0;
  t.tensor.data = nullptr;
  says("data: expected elements, got a null pointer");
  t.tensor.data = memory;
  t.tensor.shape = nullptr;
  says("shape: expected extents, got a null pointer");
  t.tensor.shape = t.shape.data();
  CHECK(refusal(t.tensor) == "");
}

TEST_CASE("static extents of the view are checked, and more elements than there can be refused") {
  example t({3, 5});
  CHECK_THROWS_WITH_AS((from_dlpack<view<float, dynamic, 6>>(t.tensor)),
                       "swiglu: conversion of a shape: expected 6, got 5", shape_error);
  t.shape[0] = std::int64_t{1} << 62;
  CHECK_THROWS_AS(from_dlpack<matrix>(t.tensor), std::length_error);
  example far({4, 2, 5}, {0, INT64_MAX / 2, 1});
  CHECK_THROWS_AS(from_dlpack<matrix>(far.tensor), std::invalid_argument);
  example further({4, 4, 5}, {0, INT64_MAX / 2, 1});
  CHECK_THROWS_AS(from_dlpack<matrix>(further.tensor), std::length_error);
}
