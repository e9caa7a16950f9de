// Signatures with an RSA key, as Google's token service wants them (RS256: RSASSA-PKCS1-v1_5 with SHA-256).
//
// By libcrypto, which libcurl brings and which is loaded when the first signature is made: nothing else needs it.
//
// Threads: every call from any thread.
// Fails:   kUnsupported where there is no libcrypto; kInvalidArgument for a key that is none, is locked by a password,
//          or is no RSA key. Messages have nothing of the key.
#pragma once

#include <headrace/status.h>

#include <string>
#include <string_view>

namespace headrace::http {

// `pem`: a private key, "-----BEGIN PRIVATE KEY-----" and so on.
Result<std::string> sign_rs256(std::string_view pem, std::string_view text);

}  // namespace headrace::http
