// CurlLibrary: the system's libcurl.so.4, loaded when the first transport is made, and never unloaded.
//
// Not linked: it brings thirty libraries, which no program should load that reads files.
//
// Threads: load_curl_library() from any thread; the functions as libcurl has them.
// Fails:   kUnsupported: there is none, or one without the functions that are needed (before 7.68, of 2020).
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
  // Without the checks that a C compiler makes of them by macros.
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...) = nullptr;
  CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...) = nullptr;
  CURLMcode (*multi_setopt)(CURLM*, CURLMoption, ...) = nullptr;
  // SSL_get_version() of the OpenSSL that libcurl came with; null where it has another library for TLS.
  const char* (*ssl_version)(const void* session) = nullptr;
};

// The one of this process.
Result<const CurlLibrary*> load_curl_library();

}  // namespace headrace::http
