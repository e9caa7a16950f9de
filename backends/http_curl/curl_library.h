// CurlLibrary: the system's libcurl.so.4, loaded for the first transport and never unloaded.
//
// It is not linked, since it brings thirty libraries that a program reading files should not load.
//
// Threads: load_curl_library() from any thread; the functions as libcurl documents them.
// Fails:   kUnsupported: libcurl is missing, or lacks required functions (before 7.68, of 2020).
#pragma once

#include <curl/curl.h>
#include <headrace/status.h>

namespace headrace::http {

struct CurlLibrary {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  // Without the type checks that libcurl's macros add in C.
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...) = nullptr;
  CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...) = nullptr;
  CURLMcode (*multi_setopt)(CURLM*, CURLMoption, ...) = nullptr;
  // SSL_get_version() of the OpenSSL that libcurl uses; null if it uses another TLS library.
  const char* (*ssl_version)(const void* session) = nullptr;
};

// The library of this process.
Result<const CurlLibrary*> load_curl_library();

}  // namespace headrace::http
