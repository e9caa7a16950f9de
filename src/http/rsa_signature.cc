#include "http/rsa_signature.h"

#include <dlfcn.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>

namespace headrace::http {
namespace {

Status key_refused(Code code, const char* what) { return Status(code, Layer::kStore, what); }

// libcrypto's functions with their documented signatures; its types are opaque pointers here.
struct CryptoLibrary {
  void* (*read_memory)(const void* bytes, int size) = nullptr;
  int (*close_memory)(void* memory) = nullptr;
  void* (*read_key)(void* memory, void** out, int (*password)(char*, int, int, void*), void* user) = nullptr;
  void (*free_key)(void* key) = nullptr;
  int (*key_kind)(const void* key) = nullptr;
  void* (*make_digest)() = nullptr;
  void (*free_digest)(void* digest) = nullptr;
  const void* (*sha256)() = nullptr;
  int (*begin_sign)(void* digest, void** context, const void* hash, void* engine, void* key) = nullptr;
  int (*sign)(void* digest, unsigned char* out, std::size_t* size, const unsigned char* text,
              std::size_t bytes) = nullptr;
  void (*clear_errors)() = nullptr;
};

constexpr int kRsaKind = 6;  // EVP_PKEY_RSA, the same in every version

Status load_crypto(CryptoLibrary& out) {
  void* library = nullptr;
  for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  bool all = library != nullptr;
  const auto need = [&](auto& function, const char* name, const char* older = nullptr) {
    if (library == nullptr) return;
    void* found = ::dlsym(library, name);
    if (found == nullptr && older != nullptr) found = ::dlsym(library, older);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    all = all && found != nullptr;
  };
  need(out.read_memory, "BIO_new_mem_buf");
  need(out.close_memory, "BIO_free");
  need(out.read_key, "PEM_read_bio_PrivateKey");
  need(out.free_key, "EVP_PKEY_free");
  need(out.key_kind, "EVP_PKEY_get_base_id", "EVP_PKEY_base_id");
  need(out.make_digest, "EVP_MD_CTX_new");
  need(out.free_digest, "EVP_MD_CTX_free");
  need(out.sha256, "EVP_sha256");
  need(out.begin_sign, "EVP_DigestSignInit");
  need(out.sign, "EVP_DigestSign");
  need(out.clear_errors, "ERR_clear_error");
  if (all) return {};
  return key_refused(Code::kUnsupported,
                     "no libcrypto here (1.1.1 or newer), which keys of service accounts need: install libssl3");
}

Result<const CryptoLibrary*> crypto_library() {
  static CryptoLibrary library;
  static const Status status = load_crypto(library);
  HEADRACE_TRY(status);
  return &library;
}

int no_password(char*, int, int, void*) { return -1; }  // otherwise libcrypto would prompt on the terminal

Result<std::string> sign_with(const CryptoLibrary& crypto, std::string_view pem, std::string_view text) {
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): load_crypto() fails if a function is missing
  const std::unique_ptr<void, int (*)(void*)> memory(crypto.read_memory(pem.data(), static_cast<int>(pem.size())),
                                                     crypto.close_memory);
  if (memory == nullptr) return Status::out_of_memory();
  const std::unique_ptr<void, void (*)(void*)> key(crypto.read_key(memory.get(), nullptr, no_password, nullptr),
                                                   crypto.free_key);
  if (key == nullptr || crypto.key_kind(key.get()) != kRsaKind) {
    return key_refused(Code::kInvalidArgument,
                       "the private key is not an RSA key in PEM form, or is encrypted with a password");
  }
  const std::unique_ptr<void, void (*)(void*)> digest(crypto.make_digest(), crypto.free_digest);
  if (digest == nullptr) return Status::out_of_memory();
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t size = 0;
  std::string signature;
  bool good = crypto.begin_sign(digest.get(), nullptr, crypto.sha256(), nullptr, key.get()) == 1 &&
              crypto.sign(digest.get(), nullptr, &size, bytes, text.size()) == 1;
  if (good) {
    signature.resize(size);
    good =
        crypto.sign(digest.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes, text.size()) == 1;
  }
  if (!good) return key_refused(Code::kInvalidArgument, "the private key cannot be used to sign");
  signature.resize(size);
  return signature;
}

}  // namespace

Result<std::string> sign_rs256(std::string_view pem, std::string_view text) {
  constexpr std::size_t kMaxKeyBytes = 32 << 10;
  if (pem.empty() || pem.size() > kMaxKeyBytes) {
    return key_refused(Code::kInvalidArgument,
                       "the private key is not an RSA key in PEM form, or is encrypted with a password");
  }
  HEADRACE_TRY_ASSIGN(const CryptoLibrary* const crypto, crypto_library());
  auto signature = sign_with(*crypto, pem, text);
  crypto->clear_errors();  // this thread's error queue, which other users of libcrypto would misread
  return signature;
}

}  // namespace headrace::http
