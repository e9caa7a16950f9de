// Reads with a conversion deliver what CF and NumPy would compute from the stored numbers, on every device, whatever
// the format version, byte order, axis order and missing chunks. A conversion that is impossible is refused by name.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/access.h"
#include "device/device.h"
#include "support/raw_array.h"

namespace headrace {
namespace {

constexpr std::uint64_t kRows = 7, kColumns = 10, kChunkRows = 3, kChunkColumns = 4;

std::vector<std::string> device_kinds() {
  std::vector<std::string> out;
  for (const device::DeviceRow& row : device::devices()) {
    if (auto count = row.count(); count.ok() && *count > 0) out.push_back(row.kind);
  }
  return out;
}

struct Layout {
  bool v2 = true, big = false, f_order = false;
  std::string name() const {
    return std::string(v2 ? "v2" : "v3") + (big ? " big-endian" : "") + (f_order ? " transposed" : "");
  }
};
constexpr Layout kLayouts[] = {{true, false, false},  {true, true, false},  {true, true, true},
                               {false, false, false}, {false, true, false}, {false, true, true}};

class ReadConversion : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto context = Context::create({});
    ASSERT_TRUE(context.ok());
    auto store = Store::open(*context, "memory://conversion");
    ASSERT_TRUE(store.ok());
    store_ = std::make_unique<Store>(std::move(*store));
    auto device = Device::open(GetParam());
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    device_ = std::make_unique<Device>(std::move(*device));
  }

  // Chunk (1, 1) is missing.
  template <class T>
  Array write(const Layout& layout, const std::string& type, const std::string& fill,
              const std::function<T(std::uint64_t, std::uint64_t)>& value) {
    const std::string path = "a" + std::to_string(++arrays_);
    if (layout.v2) {
      put_text(path + "/.zarray",
               R"({"zarr_format":2,"shape":[7,10],"chunks":[3,4],"compressor":null,"filters":null,"dtype":")" +
                   std::string(sizeof(T) == 1 ? "|"
                               : layout.big   ? ">"
                                              : "<") +
                   type + R"(","order":")" + (layout.f_order ? "F" : "C") + R"(","fill_value":)" + fill + "}");
    } else {
      const std::string transpose = layout.f_order ? R"({"name":"transpose","configuration":{"order":[1,0]}},)" : "";
      put_text(path + "/zarr.json",
               R"({"zarr_format":3,"node_type":"array","shape":[7,10],"data_type":")" + type +
                   R"(","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[3,4]}},)" +
                   R"("chunk_key_encoding":{"name":"default"},"fill_value":)" + fill + R"(,"codecs":[)" + transpose +
                   R"({"name":"bytes","configuration":{"endian":")" + (layout.big ? "big" : "little") + R"("}}]})");
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
      for (std::uint64_t j = 0; j < 3; ++j) {
        if (i == 1 && j == 1) continue;
        std::vector<std::byte> chunk(kChunkRows * kChunkColumns * sizeof(T));
        for (std::uint64_t r = 0; r < kChunkRows; ++r) {
          for (std::uint64_t c = 0; c < kChunkColumns; ++c) {
            T v = value(i * kChunkRows + r, j * kChunkColumns + c);
            auto* bytes = reinterpret_cast<std::byte*>(&v);
            if (layout.big) std::reverse(bytes, bytes + sizeof(T));
            const std::uint64_t at = layout.f_order ? c * kChunkRows + r : r * kChunkColumns + c;
            std::memcpy(chunk.data() + at * sizeof(T), bytes, sizeof(T));
          }
        }
        const std::string key = layout.v2 ? std::to_string(i) + "." + std::to_string(j)
                                          : "c/" + std::to_string(i) + "/" + std::to_string(j);
        std::string chunk_path = path;
        chunk_path.append("/").append(key);
        EXPECT_TRUE(Access::impl(*store_)->put(chunk_path, chunk).ok());
      }
    }
    auto array = Array::open(*store_, path);
    EXPECT_TRUE(array.ok()) << array.status().to_string();
    return std::move(array).value();
  }

  // Reads all of it into a tensor of Ts, in C order or transposed.
  template <class T>
  std::vector<T> read(const Array& array, const ReadOptions& options, bool transposed = false) {
    auto buffer = Buffer::allocate(*device_, kRows * kColumns * sizeof(T));
    EXPECT_TRUE(buffer.ok());
    TensorView tensor(*buffer, result_dtype(array.info().dtype, options).value(), {kRows, kColumns});
    if (transposed) tensor.strides_bytes = {sizeof(T), kRows * sizeof(T)};
    const Status status = array.read({}, tensor, *device_, options);
    EXPECT_TRUE(status.ok()) << status.to_string();
    std::vector<T> flat(kRows * kColumns), out(kRows * kColumns);
    EXPECT_TRUE(buffer->copy_to_host(0, reinterpret_cast<std::byte*>(flat.data()), flat.size() * sizeof(T)).ok());
    for (std::uint64_t r = 0; r < kRows; ++r) {
      for (std::uint64_t c = 0; c < kColumns; ++c)
        out[r * kColumns + c] = transposed ? flat[c * kRows + r] : flat[r * kColumns + c];
    }
    return out;
  }

  void put_text(const std::string& key, const std::string& text) {
    EXPECT_TRUE(testing::put_text(*Access::impl(*store_), key, text).ok());
  }
  static bool missing(std::uint64_t r, std::uint64_t c) { return r / kChunkRows == 1 && c / kChunkColumns == 1; }

  // Compares bit patterns of T.
  template <class T, class Want>
  void expect(const std::vector<T>& got, const std::string& what, Want want) {
    for (std::uint64_t r = 0; r < kRows; ++r) {
      for (std::uint64_t c = 0; c < kColumns; ++c) {
        const T wanted = want(r, c), found = got[r * kColumns + c];
        const bool both_nan = wanted != wanted && found != found;
        ASSERT_TRUE(both_nan || std::memcmp(&wanted, &found, sizeof(T)) == 0)
            << what << " at " << r << ", " << c << ": " << +found << " for " << +wanted;
      }
    }
  }

  std::unique_ptr<Store> store_;
  std::unique_ptr<Device> device_;
  int arrays_ = 0;
};

TEST_P(ReadConversion, PackedIntegersBecomeFloats) {
  auto stored = [](std::uint64_t r, std::uint64_t c) -> std::int16_t {
    return r == c ? std::int16_t{-32767}
                  : static_cast<std::int16_t>(1000 * static_cast<int>(r) - 77 * static_cast<int>(c));
  };
  for (const Layout& layout : kLayouts) {
    const Array array = write<std::int16_t>(layout, layout.v2 ? "i2" : "int16", "-32767", stored);
    for (bool transposed : {false, true}) {
      ReadOptions options;
      options.dtype = "float32";
      options.scale = 0.0016514;
      options.offset = 273.15;
      auto decoded = [&](int value) {
        volatile float product = static_cast<float>(value) * static_cast<float>(options.scale);
        return product + static_cast<float>(options.offset);
      };
      expect(read<float>(array, options, transposed), layout.name(),
             [&](auto r, auto c) { return decoded(missing(r, c) ? -32767 : stored(r, c)); });
      options.fill_as_nan = true;
      expect(read<float>(array, options, transposed), layout.name() + " NaN", [&](auto r, auto c) {
        return missing(r, c) || r == c ? std::numeric_limits<float>::quiet_NaN() : decoded(stored(r, c));
      });
      // Without a scale, to wider and narrower types.
      options = {};
      options.dtype = "float64";
      expect(read<double>(array, options, transposed), layout.name() + " float64",
             [&](auto r, auto c) { return missing(r, c) ? -32767.0 : stored(r, c); });
      options.dtype = "int8";
      expect(read<std::int8_t>(array, options, transposed), layout.name() + " int8", [&](auto r, auto c) {
        return static_cast<std::int8_t>(std::clamp<int>(missing(r, c) ? -32767 : stored(r, c), -128, 127));
      });
      options.dtype = "int16";  // the stored type
      expect(read<std::int16_t>(array, options, transposed), layout.name() + " int16",
             [&](auto r, auto c) { return missing(r, c) ? std::int16_t{-32767} : stored(r, c); });
    }
  }
}

TEST_P(ReadConversion, FloatsAreRoundedToNearest) {
  auto stored = [](std::uint64_t r, std::uint64_t c) {
    return static_cast<double>(r) / 3 - static_cast<double>(c) * 1e4;
  };
  for (const Layout& layout : kLayouts) {
    const Array array = write<double>(layout, layout.v2 ? "f8" : "float64", "\"NaN\"", stored);
    ReadOptions options;
    options.dtype = "float32";
    expect(read<float>(array, options), layout.name(), [&](auto r, auto c) {
      return missing(r, c) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(stored(r, c));
    });
    options.dtype = "bfloat16";
    const std::vector<std::uint16_t> small = read<std::uint16_t>(array, options);
    EXPECT_EQ(small[0], 0x0000);
    EXPECT_EQ(small[kColumns], 0x3eab);  // 1/3
    EXPECT_EQ(small[1], 0xc61c);         // -10,000
    EXPECT_EQ(small[3 * kColumns + 4], 0x7fc0);
    options.dtype = "float16";
    const std::vector<std::uint16_t> half = read<std::uint16_t>(array, options);
    EXPECT_EQ(half[kColumns], 0x3555);
    EXPECT_EQ(half[9], 0xfc00);  // -90,000 exceeds the format's range
    EXPECT_EQ(half[3 * kColumns + 4], 0x7e00);
    // NaN for a fill value that is NaN already: the bytes are copied as they are.
    options = {};
    options.fill_as_nan = true;
    expect(read<double>(array, options), layout.name() + " as stored",
           [&](auto r, auto c) { return missing(r, c) ? std::numeric_limits<double>::quiet_NaN() : stored(r, c); });
    // Integers of another size; conversion rounds towards zero.
    options = {};
    options.dtype = "int32";
    expect(read<std::int32_t>(array, options), layout.name() + " int32",
           [&](auto r, auto c) { return missing(r, c) ? 0 : static_cast<std::int32_t>(stored(r, c)); });
  }
}

TEST_P(ReadConversion, AnArrayWithoutAFillValueHasNoElementThatMeansMissing) {
  const Array array =
      write<std::uint8_t>({}, "u1", "null", [](auto r, auto) { return static_cast<std::uint8_t>(r % 2); });
  ReadOptions options;
  options.dtype = "float32";
  options.fill_as_nan = true;
  expect(read<float>(array, options), "null", [&](auto r, auto c) {
    return missing(r, c) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(r % 2);
  });
}

// CF's _FillValue often differs from the array's fill value.
TEST_P(ReadConversion, AValueOfItsOwnMeansMissing) {
  const Array array = write<std::int16_t>(
      {}, "i2", "0", [](auto r, auto c) { return static_cast<std::int16_t>(c == 3 ? -999 : r * 16 + c); });
  ReadOptions options;
  options.dtype = "float32";
  options.fill_as_nan = true;
  const std::int16_t value = -999;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  options.missing.assign(bytes, bytes + 2);
  expect(read<float>(array, options), "-999", [&](auto r, auto c) {
    if (missing(r, c)) return 0.0f;
    return c == 3 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(r * 16 + c);
  });
  // If it is the array's fill value, elements that are not stored are missing too.
  const std::int16_t zero = 0;
  options.missing.assign(reinterpret_cast<const std::byte*>(&zero), reinterpret_cast<const std::byte*>(&zero) + 2);
  expect(read<float>(array, options), "0", [&](auto r, auto c) {
    if (missing(r, c) || (r == 0 && c == 0)) return std::numeric_limits<float>::quiet_NaN();
    return c == 3 ? -999.0f : static_cast<float>(r * 16 + c);
  });
  // Without a fill value in the metadata, the caller can still name one.
  const Array bare =
      write<std::int16_t>({}, "i2", "null", [](auto, auto c) { return static_cast<std::int16_t>(c == 3 ? 5 : 6); });
  const std::int16_t five = 5;
  options.missing.assign(reinterpret_cast<const std::byte*>(&five), reinterpret_cast<const std::byte*>(&five) + 2);
  expect(read<float>(bare, options), "null", [&](auto r, auto c) {
    if (missing(r, c)) return 0.0f;
    return c == 3 ? std::numeric_limits<float>::quiet_NaN() : 6.0f;
  });

  std::vector<std::byte> memory(1);
  const TensorView tensor(memory, array.info().dtype, array.info().shape);
  options.missing.resize(3);
  EXPECT_EQ(array.read({}, tensor, *device_, options).code(), Code::kInvalidArgument);
  options.missing.resize(2);
  options.fill_as_nan = false;
  EXPECT_EQ(array.read({}, tensor, *device_, options).code(), Code::kInvalidArgument);
}

TEST_P(ReadConversion, EqualSizesAreConvertedAndNotMoved) {
  const Array array =
      write<std::uint32_t>({}, "u4", "5", [](auto r, auto c) { return static_cast<std::uint32_t>(r * 16 + c); });
  ReadOptions options;
  options.dtype = "float32";
  expect(read<float>(array, options), "u4 to f4",
         [&](auto r, auto c) { return missing(r, c) ? 5.0f : static_cast<float>(r * 16 + c); });
  options = {};
  options.scale = -2;
  options.dtype = "uint32";
  expect(read<std::uint32_t>(array, options), "scaled below the range", [&](auto, auto) { return 0u; });
}

TEST_P(ReadConversion, Shards) {
  testing::RawArray raw;
  raw.shape = {40, 50};
  raw.chunk = {16, 20};
  raw.inner = {8, 5};
  raw.missing_every = 3;
  std::vector<std::uint32_t> expected;
  ASSERT_TRUE(testing::write_raw_array(*Access::impl(*store_), "sharded", raw, &expected).ok());
  const Array array = Array::open(*store_, "sharded").value();
  auto buffer = Buffer::allocate(*device_, 2000 * 8);
  ASSERT_TRUE(buffer.ok());
  ReadOptions options;
  options.dtype = "float64";
  options.scale = 0.5;
  options.fill_as_nan = true;
  ASSERT_TRUE(array.read({}, {*buffer, numeric_type("float64"), {40, 50}}, *device_, options).ok());
  std::vector<double> got(2000);
  ASSERT_TRUE(buffer->copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), 16000).ok());
  int missing = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (expected[i] == testing::kFillValue) {
      ++missing;
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else {
      EXPECT_EQ(got[i], expected[i] * 0.5) << i;
    }
  }
  EXPECT_GT(missing, 100);
}

TEST_P(ReadConversion, UnsupportedConversionsAreRefusedByName) {
  const Array numbers = write<std::int16_t>({}, "i2", "0", [](auto, auto) { return std::int16_t{0}; });
  struct Row {
    const char *dtype, *says;
    double scale;
    bool nan;
    Code code;
  };
  auto refuse = [&](const Array& array, const Row& row) {
    ReadOptions options;
    options.dtype = row.dtype;
    options.scale = row.scale;
    options.fill_as_nan = row.nan;
    std::vector<std::byte> memory(1);
    const Status status = array.read({}, {memory, array.info().dtype, array.info().shape}, *device_, options);
    EXPECT_EQ(status.code(), row.code) << status.to_string();
    EXPECT_NE(status.message().find(row.says), std::string::npos) << status.to_string();
    EXPECT_EQ(result_dtype(array.info().dtype, options).status().code(), row.code);
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const Row& row :
       {Row{"float", "\"float\"", 1, false, Code::kInvalidArgument},
        Row{"complex64", "complex64", 1, false, Code::kUnsupported}, Row{"bool", "bool", 1, false, Code::kUnsupported},
        Row{"", "dtype", 2, false, Code::kInvalidArgument},
        Row{"int32", "int32 has no NaN", 1, true, Code::kInvalidArgument},
        Row{"", "int16 has no NaN", 1, true, Code::kInvalidArgument},
        Row{"float32", "finite", inf, false, Code::kInvalidArgument}}) {
    refuse(numbers, row);
  }
  for (const char* type : {"|S4", "<U1", "<c8", "<M8[s]", "|V3"}) {
    const std::string path = "t" + std::to_string(++arrays_);
    put_text(path + "/.zarray",
             R"({"zarr_format":2,"shape":[7,10],"chunks":[3,4],"compressor":null,"filters":null,"order":"C",)"
             R"("fill_value":null,"dtype":")" +
                 std::string(type) + "\"}");
    auto array = Array::open(*store_, path);
    ASSERT_TRUE(array.ok()) << array.status().to_string();
    const std::string name = array->info().dtype.name;
    refuse(*array, {"float32", name.c_str(), 1, false, Code::kUnsupported});
    refuse(*array, {"", name.c_str(), 2, false, Code::kUnsupported});
    refuse(*array, {"", name.c_str(), 1, true, Code::kUnsupported});
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ReadConversion, ::testing::ValuesIn(device_kinds()), [](const auto& param) {
  std::string name = param.param;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace headrace
