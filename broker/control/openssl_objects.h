// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_OPENSSL_OBJECTS_H_
#define BROKER_CONTROL_OPENSSL_OBJECTS_H_

#include <openssl/bio.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace rdmabroker {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;

// Reads `text`, which outlives it.
inline Bio BioOf(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// For OpenSSL's readers of PEM: there is nobody to ask for a passphrase.
inline int NoPassphrase(char*, int, int, void*) { return 0; }

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_OPENSSL_OBJECTS_H_
