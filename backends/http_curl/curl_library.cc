#include "curl_library.h"

#include <dlfcn.h>

#include <string>

namespace headrace::http {
namespace {

constexpr const char* kFile = "libcurl.so.4";

Status refuse(std::string message) { return Status(Code::kUnsupported, Layer::kStore, std::move(message)); }

Status load(CurlLibrary& out) {
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return refuse("libcurl is not installed, which HTTP and S3 URLs need: install libcurl4")
        .with_cause(why != nullptr ? why : "");
  }
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && missing == nullptr) missing = name;
  };
  need("curl_global_init", out.global_init);
  need("curl_easy_init", out.easy_init);
  need("curl_easy_cleanup", out.easy_cleanup);
  need("curl_easy_strerror", out.easy_strerror);
  need("curl_slist_append", out.slist_append);
  need("curl_slist_free_all", out.slist_free_all);
  need("curl_multi_init", out.multi_init);
  need("curl_multi_cleanup", out.multi_cleanup);
  need("curl_multi_add_handle", out.multi_add_handle);
  need("curl_multi_remove_handle", out.multi_remove_handle);
  need("curl_multi_perform", out.multi_perform);
  need("curl_multi_poll", out.multi_poll);
  need("curl_multi_info_read", out.multi_info_read);
  need("curl_easy_setopt", out.easy_setopt);
  need("curl_easy_getinfo", out.easy_getinfo);
  need("curl_multi_setopt", out.multi_setopt);
  out.ssl_version = reinterpret_cast<decltype(out.ssl_version)>(::dlsym(library, "SSL_get_version"));
  if (missing != nullptr) return refuse(std::string(kFile) + " has no function " + missing + ": it is too old");
  if (out.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return refuse(std::string(kFile) + " cannot be started");
  return {};
}

}  // namespace

Result<const CurlLibrary*> load_curl_library() {
  // Tried only once: without libcurl, later opens do not search again.
  static CurlLibrary library;
  static const Status status = load(library);
  HEADRACE_TRY(status);
  return &library;
}

}  // namespace headrace::http
