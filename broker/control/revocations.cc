// SPDX-License-Identifier: Apache-2.0

#include "broker/control/revocations.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

absl::Status Bad(size_t number, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("list ", number, " in it ", what));
}

std::string NameOf(const X509_NAME* name) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253) < 0) return "?";
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(length));
}

bool HasIssued(const Certificate& issuer, X509* certificate) {
  return X509_check_issued(issuer.get(), certificate) == X509_V_OK;
}
bool HasIssued(const std::vector<Certificate>& issuers, X509* certificate) {
  return std::any_of(issuers.begin(), issuers.end(), [&](const auto& each) { return HasIssued(each, certificate); });
}

// A reader that does not know a critical extension cannot tell what its list revokes (RFC 5280, section 5.2). A delta
// list is such a one, since the list that it changes may be missing. OpenSSL's search knows whose certificates a list
// of the other kind has.
absl::Status CheckExtensions(const X509_CRL* list, size_t number) {
  for (int at = -1; (at = X509_CRL_get_ext_by_critical(list, 1, at)) >= 0;) {
    const int what = OBJ_obj2nid(X509_EXTENSION_get_object(X509_CRL_get_ext(list, at)));
    if (what == NID_issuing_distribution_point) continue;
    if (what == NID_delta_crl) return Bad(number, "has changes to another one only; give the complete list");
    return Bad(number, absl::StrCat("has a critical extension that is not understood: ", OBJ_nid2ln(what)));
  }
  return absl::OkStatus();
}

absl::Status CheckSignature(X509_CRL* list, size_t number, const std::vector<Certificate>& authorities) {
  const X509_NAME* const issuer = X509_CRL_get_issuer(list);
  bool known = false;
  for (const Certificate& authority : authorities) {
    if (X509_NAME_cmp(X509_get_subject_name(authority.get()), issuer) != 0) continue;
    known = true;
    const bool may_sign = (X509_get_key_usage(authority.get()) & KU_CRL_SIGN) != 0;
    const bool signed_by_it = may_sign && X509_CRL_verify(list, X509_get0_pubkey(authority.get())) == 1;
    ERR_clear_error();
    if (signed_by_it) return absl::OkStatus();
  }
  const std::string name = NameOf(issuer);
  if (!known) return Bad(number, absl::StrCat("is of ", name, ", which is not in tcp.client_authorities"));
  return Bad(number, absl::StrCat("has no good signature of ", name, " in tcp.client_authorities"));
}

// The next object in PEM. Null at the end and at what is none.
struct PemObject {
  std::string kind;
  std::string der;
};
bool ReadObject(const Bio& bio, PemObject* object) {
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long length = 0;
  if (PEM_read_bio(bio.get(), &name, &header, &data, &length) != 1) return false;
  object->kind = name;
  object->der.assign(reinterpret_cast<const char*>(data), static_cast<size_t>(length));
  OPENSSL_free(name);
  OPENSSL_free(header);
  OPENSSL_free(data);
  return true;
}

}  // namespace

absl::StatusOr<Revocations> Revocations::Parse(const std::string& lists, const std::vector<Certificate>& authorities) {
  Revocations parsed;
  const Bio bio = BioOf(lists);
  PemObject object;
  while (ReadObject(bio, &object)) {
    const size_t number = parsed.lists_.size() + 1;
    const auto* at = reinterpret_cast<const unsigned char*>(object.der.data());
    const auto* const end = at + object.der.size();
    List list(object.kind == PEM_STRING_X509_CRL ? d2i_X509_CRL(nullptr, &at, static_cast<long>(object.der.size()))
                                                 : nullptr);
    ERR_clear_error();
    if (list == nullptr || at != end) {
      return absl::InvalidArgumentError(absl::StrCat("has something that is no revocation list: ", object.kind));
    }
    if (absl::Status good = CheckSignature(list.get(), number, authorities); !good.ok()) return good;
    if (absl::Status good = CheckExtensions(list.get(), number); !good.ok()) return good;
    parsed.lists_.push_back(std::move(list));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) return absl::InvalidArgumentError("has something that is no revocation list in PEM");
  if (parsed.lists_.empty()) return absl::InvalidArgumentError("has no revocation list in PEM");
  for (const Certificate& authority : authorities) {
    X509_up_ref(authority.get());
    auto& of_its_kind = parsed.Lists(authority.get()) ? parsed.revoked_authorities_ : parsed.other_authorities_;
    of_its_kind.emplace_back(authority.get());
  }
  return parsed;
}

bool Revocations::Lists(X509* certificate) const {
  return std::any_of(lists_.begin(), lists_.end(), [&](const List& list) {
    X509_REVOKED* entry = nullptr;
    // 2: taken off it again.
    return X509_CRL_get0_by_cert(list.get(), &entry, certificate) == 1;
  });
}

Revocations::Verdict Revocations::Check(const PresentedChain& chain) const {
  if (lists_.empty()) return Verdict::kNotRevoked;
  X509* const own = chain.certificate();
  if (own == nullptr || !chain.complete()) return Verdict::kIssuerUnknown;
  const auto is_revoked = [&](X509* each) { return Lists(each) || HasIssued(revoked_authorities_, each); };
  if (is_revoked(own)) return Verdict::kRevoked;
  for (const Certificate& issuer : chain.issuers()) {
    if (is_revoked(issuer.get())) return Verdict::kRevoked;
  }
  // The handshake has seen the whole path: an issuer is unknown only where the authorities have changed since.
  const bool known = HasIssued(other_authorities_, own) || HasIssued(chain.issuers(), own);
  return known ? Verdict::kNotRevoked : Verdict::kIssuerUnknown;
}

std::string Revocations::Overdue(absl::Time now) const {
  std::time_t seconds = absl::ToTimeT(now);
  for (const List& list : lists_) {
    const ASN1_TIME* const due = X509_CRL_get0_nextUpdate(list.get());
    std::tm when = {};
    if (due == nullptr || X509_cmp_time(due, &seconds) > 0) continue;
    const bool read = ASN1_TIME_to_tm(due, &when) == 1;
    const std::string since =
        read ? absl::FormatTime(absl::FromTM(when, absl::UTCTimeZone()), absl::UTCTimeZone()) : "?";
    return absl::StrCat("the list of ", NameOf(X509_CRL_get_issuer(list.get())), " was to be replaced by ", since);
  }
  return "";
}

}  // namespace rdmabroker
