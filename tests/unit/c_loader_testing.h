// Helpers shared by the tests of the C API's loader: the arrays of the C++ loader's tests, also opened through C.
#pragma once

#include <gtest/gtest.h>
#include <headrace/loader.h>
#include <headrace/loader_c.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "loader/loader_testing.h"

namespace headrace::testing {

struct FreeHandle {
  void operator()(hr_context* handle) const { hr_context_free(handle); }
  void operator()(hr_store* handle) const { hr_store_free(handle); }
  void operator()(hr_array* handle) const { hr_array_free(handle); }
  void operator()(hr_device* handle) const { hr_device_free(handle); }
  void operator()(hr_windows* handle) const { hr_windows_free(handle); }
  void operator()(hr_order* handle) const { hr_order_free(handle); }
  void operator()(hr_split* handle) const { hr_split_free(handle); }
  void operator()(hr_schema* handle) const { hr_schema_free(handle); }
  void operator()(hr_loader* handle) const { hr_loader_free(handle); }
  void operator()(hr_batch* handle) const { hr_batch_free(handle); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, FreeHandle>;

// The result of a call: its handle, its code, and its message.
template <class Handle>
struct Made {
  Owned<Handle> handle;
  hr_code code = HR_OK;
  std::string message;
  Handle* get() const { return handle.get(); }
};

// `call` takes the last two parameters of a C API function. Any violation of the rules for all functions fails the
// test.
template <class Handle, class Call>
Made<Handle> make(const Call& call) {
  Made<Handle> made;
  Handle* handle = reinterpret_cast<Handle*>(&made);  // garbage, which the call must overwrite
  auto* error = reinterpret_cast<hr_error*>(&made);
  made.code = call(&handle, &error);
  made.handle.reset(handle);
  EXPECT_EQ(made.code, hr_error_code(error));
  EXPECT_TRUE(made.code == HR_OK ? error == nullptr : handle == nullptr);
  made.message = hr_error_message(error);
  EXPECT_EQ(made.message.empty(), made.code == HR_OK);
  EXPECT_EQ(made.message.find('\n'), std::string::npos);
  hr_error_free(error);
  return made;
}

// The same for a call that returns no handle.
struct Said {
  hr_code code = HR_OK;
  std::string message;
};
template <class Call>
Said said_by(const Call& call) {
  Said said;
  auto* error = reinterpret_cast<hr_error*>(&said);
  said.code = call(&error);
  EXPECT_EQ(said.code, hr_error_code(error));
  EXPECT_EQ(said.code == HR_OK, error == nullptr);
  said.message = hr_error_message(error);
  hr_error_free(error);
  return said;
}

inline std::vector<hr_dim_value> c_dims(const Shape& shape) {
  static const char* const names[] = {"time", "lat", "lon"};
  std::vector<hr_dim_value> out;
  for (std::size_t d = 0; d < shape.size(); ++d) out.push_back({names[d + 3 - shape.size()], shape[d]});
  return out;
}

// Windows of `elements` along time, with a stride, over an array of kShape.
inline Made<hr_windows> c_windows(std::uint64_t elements, std::uint64_t stride = 0, const Shape& shape = kShape) {
  const std::vector<hr_dim_value> dims = c_dims(shape);
  const hr_dim_value input[] = {{"time", elements}}, step[] = {{"time", stride}};
  hr_window_options options = HR_WINDOW_OPTIONS_INIT;
  options.input_dims = input;
  options.input_dims_count = 1;
  options.input_stride = step;
  options.input_stride_count = stride == 0 ? 0 : 1;
  return make<hr_windows>([&](hr_windows** out, hr_error** error) {
    return hr_windows_create(dims.data(), dims.size(), &options, out, error);
  });
}
inline Windows cpp_windows(std::uint64_t elements, std::uint64_t stride = 0, const Shape& shape = kShape) {
  WindowOptions options;
  options.input_dims = {{"time", elements}};
  if (stride != 0) options.input_stride = {{"time", stride}};
  return Windows::create(dims(shape), options).value();
}

class CLoaderTest : public LoaderTest {
 protected:
  void SetUp() override {
    LoaderTest::SetUp();
    if (IsSkipped()) return;
    c_context_.reset(make<hr_context>([&](hr_context** out, hr_error** error) {
                       return hr_context_create(nullptr, out, error);
                     }).handle.release());
    c_device_.reset(make<hr_device>([&](hr_device** out, hr_error** error) {
                      return hr_device_open(GetParam(), out, error);
                    }).handle.release());
    const Store store = new_store();
    array_ = std::make_unique<Array>(make_array(store, kShape, kChunk));
    c_array_ = open_c(store.url());
    windows_ = c_windows(2).handle;
    c_one_ = HR_LOADER_ARRAY_INIT;
    c_one_.name = "x";
    c_one_.array = c_array_.get();
    c_one_.samples = windows_.get();
  }
  Owned<hr_array> open_c(const std::string& url) const {
    const auto store = make<hr_store>(
        [&](hr_store** out, hr_error** error) { return hr_store_open(c_context_.get(), url.c_str(), out, error); });
    auto array = make<hr_array>(
        [&](hr_array** out, hr_error** error) { return hr_array_open(store.get(), nullptr, out, error); });
    EXPECT_EQ(array.code, HR_OK) << store.message << array.message;
    return std::move(array.handle);
  }
  Made<hr_loader> loader_of(const std::vector<const hr_loader_array*>& arrays,
                            const hr_loader_options& options = HR_LOADER_OPTIONS_INIT) const {
    return make<hr_loader>([&](hr_loader** out, hr_error** error) {
      return hr_loader_create(c_device_.get(), arrays.data(), arrays.size(), &options, out, error);
    });
  }
  static Made<hr_batch> next_of(const Made<hr_loader>& loader) {
    return make<hr_batch>([&](hr_batch** out, hr_error** error) { return hr_loader_next(loader.get(), out, error); });
  }
  static std::string state_of(const hr_loader* loader) {
    std::size_t bytes = 0;
    EXPECT_EQ(hr_loader_state(loader, nullptr, 0, &bytes, nullptr), HR_OK);
    std::string text(bytes, 'x');
    EXPECT_EQ(hr_loader_state(loader, text.data(), bytes, nullptr, nullptr), HR_OK);
    EXPECT_EQ(text.back(), '\0');
    text.pop_back();
    return text;
  }
  static std::vector<std::uint64_t> samples_of(const hr_batch* batch) {
    const std::uint64_t* const samples = hr_batch_samples(batch);
    return {samples, samples + hr_batch_size(batch)};
  }
  // Elements of one tensor, as bytes.
  static std::vector<std::byte> bytes_of_tensor(const hr_batch* batch, std::size_t index) {
    hr_tensor tensor = HR_TENSOR_INIT;
    EXPECT_EQ(hr_batch_tensor(batch, index, &tensor, nullptr), HR_OK);
    std::vector<std::byte> out(tensor.data_bytes);
    EXPECT_EQ(hr_batch_copy_to_host(batch, index, 0, out.data(), out.size(), nullptr), HR_OK);
    return out;
  }
  // Both must return the same batches up to the end of `epochs` epochs.
  static void expect_same(const Made<hr_loader>& c, Loader& cpp, std::uint64_t epochs) {
    ASSERT_EQ(c.code, HR_OK) << c.message;
    ASSERT_EQ(hr_loader_tensor_count(c.get()), cpp.tensors().size());
    EXPECT_EQ(hr_loader_sample_count(c.get()), cpp.sample_count());
    EXPECT_EQ(hr_loader_batches(c.get()), cpp.batches());
    for (std::uint64_t ends = 0; ends < epochs;) {
      ASSERT_EQ(hr_loader_batches_left(c.get()), cpp.batches_left());
      const Made<hr_batch> got = next_of(c);
      ASSERT_EQ(got.code, HR_OK) << got.message;
      const std::optional<LoaderBatch> wanted = cpp.next().value();
      ASSERT_EQ(got.get() != nullptr, wanted.has_value());
      ASSERT_EQ(state_of(c.get()), cpp.state().to_json());
      if (!wanted) {
        ++ends;
        continue;
      }
      EXPECT_EQ(samples_of(got.get()), std::vector<std::uint64_t>(wanted->samples().begin(), wanted->samples().end()));
      EXPECT_EQ(hr_batch_valid(got.get()), wanted->valid());
      EXPECT_EQ(hr_batch_epoch(got.get()), wanted->epoch());
      EXPECT_EQ(hr_batch_number(got.get()), wanted->number());
      for (std::size_t i = 0; i < cpp.tensors().size(); ++i) {
        const std::vector<std::byte> bytes = bytes_of_tensor(got.get(), i);
        std::vector<std::byte> elements(bytes.size());
        ASSERT_TRUE(wanted->copy_to_host(i, 0, elements.data(), elements.size()).ok());
        EXPECT_FALSE(wanted->copy_to_host(i, 0, elements.data(), elements.size() + 1).ok());
        ASSERT_TRUE(bytes == elements) << "tensor " << i << " of batch " << wanted->number();
      }
    }
  }

  Owned<hr_context> c_context_;
  Owned<hr_device> c_device_;
  Owned<hr_array> c_array_;    // the array of array_
  Owned<hr_windows> windows_;  // c_windows(2)
  hr_loader_array c_one_{};    // both, as "x"
};

}  // namespace headrace::testing
