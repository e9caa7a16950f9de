// Writes a test's objects as ZIP files: stored, deflated, and in a folder inside the archive.
#pragma once

#include <cstdlib>

#include "support/http_server.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"
#include "support/zip_writer.h"

namespace headrace::testing {

inline store::Bytes zip_archive(const Objects& objects, bool deflate, const std::string& folder) {
  ZipWriter writer;
  int number = 0;
  for (const auto& [key, bytes] : objects) {
    writer.pad(static_cast<std::size_t>(number++ % 7));  // entries begin at any offset
    writer.add(folder + key, bytes, {.deflate = deflate, .descriptor = number % 2 == 0});
  }
  if (!folder.empty()) writer.add_text(folder, "");
  return writer.finish();
}
inline std::string fill_zip(const std::string& dir, const Objects& objects, bool deflate, const std::string& folder) {
  const std::string path = dir + "/objects.zip";
  return support::write_file(path, zip_archive(objects, deflate, folder)) ? path : "";
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
inline std::string fill_zip_http(const std::string&, const Objects& objects) {
  return serve_objects("zip_http", {{"a dir/x.zip", zip_archive(objects, false, "")}}, ObjectStyle::kPlain) +
         "/a%20dir/x.zip";
}
inline std::string fill_zip_http_deflated(const std::string&, const Objects& objects) {
  return serve_objects("zip_http", {{"x.zip", zip_archive(objects, true, "")}}, ObjectStyle::kPlain) + "/x.zip";
}
inline std::string fill_zip_s3(const std::string&, const Objects& objects) {
  const Objects served{{"some/x.zarr.zip", zip_archive(objects, false, "data/root.zarr/")}};
  ::setenv("AWS_ENDPOINT_URL", serve_objects("zip_s3", served, ObjectStyle::kS3).c_str(), 1);
  ::setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "of-a-test", 1);
  return "s3://bucket/some/x.zarr.zip/data/root.zarr";
}

inline std::span<const StoreUnderTest> zip_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"zip", false, true, &fill_zip_stored},
                                               {"zip_deflated", false, true, &fill_zip_deflated},
                                               {"zip_folder", false, true, &fill_zip_folder},
                                               {"zip_http", false, true, &fill_zip_http, true},
                                               {"zip_http_deflated", false, true, &fill_zip_http_deflated, true},
                                               {"zip_s3_folder", false, true, &fill_zip_s3, true}};
  return kStores;
}

}  // namespace headrace::testing
