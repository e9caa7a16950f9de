// RSA signatures as Google's token service requires them (RS256: RSASSA-PKCS1-v1_5 with SHA-256).
//
// Made by libcrypto, a dependency of libcurl. It is loaded on the first signature, since nothing else needs it.
//
// Threads: every call from any thread.
// Fails:   kUnsupported where libcrypto is missing; kInvalidArgument for a key that is invalid, encrypted or not RSA.
//          Messages contain nothing of the key.
#pragma once

#include <headrace/status.h>

#include <string>
#include <string_view>

namespace headrace::http {

// `pem`: a private key, "-----BEGIN PRIVATE KEY-----" and so on.
Result<std::string> sign_rs256(std::string_view pem, std::string_view text);

}  // namespace headrace::http
