// Writes a test's objects as ZIP files: stored, deflated, and in a folder inside the archive.
#pragma once

#include "support/stores_under_test.h"
#include "support/temp_dir.h"
#include "support/zip_writer.h"

namespace headrace::testing {

inline std::string fill_zip(const std::string& dir, const Objects& objects, bool deflate, const std::string& folder) {
  ZipWriter writer;
  int number = 0;
  for (const auto& [key, bytes] : objects) {
    writer.pad(static_cast<std::size_t>(number++ % 7));  // entries begin at any offset
    writer.add(folder + key, bytes, {.deflate = deflate, .descriptor = number % 2 == 0});
  }
  if (!folder.empty()) writer.add_text(folder, "");
  const std::string path = dir + "/objects.zip";
  return support::write_file(path, writer.finish()) ? path : "";
}
inline std::string fill_zip_stored(const std::string& dir, const Objects& objects) {
  return fill_zip(dir, objects, false, "");
}
inline std::string fill_zip_deflated(const std::string& dir, const Objects& objects) {
  return "zip://" + fill_zip(dir, objects, true, "");
}
inline std::string fill_zip_folder(const std::string& dir, const Objects& objects) {
  return fill_zip(dir, objects, false, "data/root.zarr/") + "/data/root.zarr";
}

inline std::span<const StoreUnderTest> zip_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"zip", false, true, &fill_zip_stored},
                                               {"zip_deflated", false, true, &fill_zip_deflated},
                                               {"zip_folder", false, true, &fill_zip_folder}};
  return kStores;
}

}  // namespace headrace::testing
