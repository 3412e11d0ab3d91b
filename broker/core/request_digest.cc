// SPDX-License-Identifier: Apache-2.0

#include "broker/core/request_digest.h"

#include <isa-l/crc64.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "broker/core/overloaded.h"
#include "broker/core/request_names.h"

namespace rdmabroker {
namespace {

// The bytes that are summed: the request's name, then each field that differs from its default, as number, length and
// bytes.
class Text {
 public:
  Text() = default;
  explicit Text(std::string_view name) {
    bytes_.reserve(kUsual);
    bytes_ = name;
    bytes_.push_back('\0');
  }

  const std::string& bytes() const { return bytes_; }

  // Numbers the fields as the contract's message does (requests.proto); its first field is the header.
  template <typename... Values>
  void AddFields(const Values&... values) {
    uint8_t field = 2;
    (Add(field++, values), ...);
  }

 private:
  void Add(uint8_t field, std::string_view value) {
    if (value.empty()) return;
    bytes_.push_back(static_cast<char>(field));
    AddNumber(value.size());
    bytes_.append(value);
  }
  void Add(uint8_t field, uint64_t value) {
    if (value == 0) return;
    bytes_.push_back(static_cast<char>(field));
    AddNumber(value);
  }
  template <typename Kind>
  void Add(uint8_t field, Id<Kind> id) {
    Add(field, id.value());
  }
  void Add(uint8_t field, QpNumber qp) { Add(field, qp.value); }
  void Add(uint8_t field, const Bytes& bytes) {
    Add(field, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  void Add(uint8_t field, const NdkVersion& version) { Add(field, uint64_t{version.major} << 16 | version.minor); }
  void Add(uint8_t field, const ReadLimits& limits) { Add(field, uint64_t{limits.inbound} << 32 | limits.outbound); }
  // The defaults, which a client that does not know the field has, add nothing.
  void Add(uint8_t field, const ConnectionOptions& options) {
    Add(field, uint64_t{ConnectionOptions::kForEver - options.rnr_retry_count});
  }
  void Add(uint8_t field, const SocketAddress& address) {
    if (address == SocketAddress()) return;
    Text value;
    value.AddNumber(static_cast<uint64_t>(address.ip.family));
    value.bytes_.append(address.ip.bytes.begin(), address.ip.bytes.end());
    value.AddNumber(address.ip.scope_id);
    value.AddNumber(address.port);
    Add(field, std::string_view(value.bytes_));
  }
  // The lowest byte first.
  void AddNumber(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<char>(value >> shift));
  }

  // A Connect without private data.
  static constexpr size_t kUsual = 256;

  std::string bytes_;
};

Text TextOf(const Request& request) {
  Text text(kRequestNames[request.index()]);
  std::visit(Overloaded{
                 [&](const OpenAdapter& open) { text.AddFields(open.device, open.version); },
                 [&](const CloseAdapter& close) { text.AddFields(close.adapter); },
                 [&](const CreateListener& create) { text.AddFields(create.adapter); },
                 [&](const Listen& listen) {
                   // The fifth, "join", is refused when it is translated.
                   text.AddFields(listen.listener, listen.address, listen.reservation, false, listen.await_address,
                                  listen.any_adapter);
                 },
                 [&](const ControlConnectEvents& control) { text.AddFields(control.listener, control.pause); },
                 [&](const CloseListener& close) { text.AddFields(close.listener); },
                 [&](const CreateSharedEndpoint& create) {
                   text.AddFields(create.adapter, create.address, create.reservation);
                 },
                 [&](const CloseSharedEndpoint& close) { text.AddFields(close.shared_endpoint); },
                 [&](const ReservePort& reserve) { text.AddFields(reserve.adapter, reserve.address); },
                 [&](const ReleasePort& release) { text.AddFields(release.reservation); },
                 [&](const CreateConnector& create) { text.AddFields(create.adapter); },
                 [&](const Connect& connect) {
                   text.AddFields(connect.connector, connect.qp, connect.source, connect.destination, connect.limits,
                                  connect.private_data, connect.options);
                 },
                 [&](const ConnectWithSharedEndpoint& connect) {
                   text.AddFields(connect.connector, connect.qp, connect.shared_endpoint, connect.destination,
                                  connect.limits, connect.private_data, connect.options);
                 },
                 [&](const CompleteConnect& complete) { text.AddFields(complete.connector); },
                 [&](const Accept& accept) {
                   text.AddFields(accept.connector, accept.qp, accept.limits, accept.private_data, accept.options);
                 },
                 [&](const Reject& reject) { text.AddFields(reject.connector, reject.private_data); },
                 [&](const Disconnect& disconnect) { text.AddFields(disconnect.connector); },
                 [&](const GetConnectionData& get) { text.AddFields(get.connector); },
                 [&](const ReportConnectionEnd& report) {
                   text.AddFields(report.connector, report.graceful, report.provider_error);
                 },
                 [&](const CloseConnector& close) { text.AddFields(close.connector); },
             },
             request);
  return text;
}

}  // namespace

RequestDigest DigestOf(const Request& request) {
  const Text text = TextOf(request);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.bytes().data());
  uint64_t sums[] = {::crc64_ecma_refl(0, bytes, text.bytes().size()),
                     ::crc64_jones_refl(0, bytes, text.bytes().size())};
  RequestDigest digest;
  auto byte = digest.begin();
  for (uint64_t sum : sums) {
    for (size_t i = 0; i < sizeof sum; ++i, sum >>= 8) *byte++ = static_cast<uint8_t>(sum);
  }
  return digest;
}

}  // namespace rdmabroker
