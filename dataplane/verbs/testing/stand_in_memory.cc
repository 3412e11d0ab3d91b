// SPDX-License-Identifier: Apache-2.0

// Protection domains, memory regions and windows of type 2.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/verbs/testing/stand_in_device.h"

namespace rdmabroker::verbs {
namespace {

constexpr uint32_t kTagBits = 8;

uint32_t NewKey(StandInDevice& device) { return device.next_key++ << kTagBits; }

bool Lies(uint64_t address, uint64_t length, uint64_t base, uint64_t size) {
  return address >= base && length <= size && address - base <= size - length;
}

template <typename Object>
Object* Find(const std::map<uint32_t, Object*>& objects, uint32_t key) {
  const auto found = objects.find(key >> kTagBits);
  return found == objects.end() ? nullptr : found->second;
}

bool LocalAllows(const StandInPair& pair, const ibv_sge& sge, unsigned int right) {
  if (sge.length == 0) return true;
  const StandInRegion* const region = Find(StandInDevice::Get().regions, sge.lkey);
  return region != nullptr && region->lkey == sge.lkey && region->pd == pair.pd && (region->access & right) == right &&
         Lies(sge.addr, sge.length, reinterpret_cast<uint64_t>(region->addr), region->length);
}

// Brings the pages in, as a driver that pins them does. A kernel that cannot is taken at its caller's word.
bool CanBeUsed(void* address, size_t length, bool writes) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = reinterpret_cast<uint64_t>(address) / page * page;
  const uint64_t size = reinterpret_cast<uint64_t>(address) + length - begin;
  static const bool kKernelKnows = [page] {
    int here = 0;
    void* const its_page = reinterpret_cast<void*>(reinterpret_cast<uint64_t>(&here) / page * page);
    return ::madvise(its_page, page, MADV_POPULATE_WRITE) == 0;
  }();
  const int advice = writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  return !kKernelKnows || ::madvise(reinterpret_cast<void*>(begin), size, advice) == 0;
}

ibv_mr* MakeRegion(ibv_pd* domain, void* address, size_t length, unsigned int access) {
  constexpr unsigned int kWrites = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
  Call call("ibv_reg_mr");
  if (call.error() != 0) return Call::Fail(call.error());
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return Call::Fail(EINVAL);
  if (!CanBeUsed(address, length, (access & kWrites) != 0)) return Call::Fail(EFAULT);
  auto* const made = new StandInRegion();
  made->context = domain->context;
  made->pd = domain;
  made->addr = address;
  made->length = length;
  made->lkey = made->rkey = NewKey(StandInDevice::Get());
  made->access = access;
  call->regions[made->lkey >> kTagBits] = made;
  ++static_cast<StandInDomain*>(domain)->users;
  ++call->objects;
  return made;
}

}  // namespace

ibv_mw* MakeWindow(ibv_pd* domain, ibv_mw_type type) {
  Call call("ibv_alloc_mw");
  if (call.error() != 0) return Call::Fail(call.error());
  if (type != IBV_MW_TYPE_2) return Call::Fail(EOPNOTSUPP);
  auto* const made = new StandInWindow();
  made->context = domain->context;
  made->pd = domain;
  made->type = type;
  made->rkey = made->key = NewKey(StandInDevice::Get());
  call->windows[made->key >> kTagBits] = made;
  ++static_cast<StandInDomain*>(domain)->users;
  ++call->objects;
  return made;
}

int FreeWindow(ibv_mw* mw) {
  Call call("ibv_dealloc_mw");
  if (call.error() != 0) return call.error();
  auto* const window = static_cast<StandInWindow*>(mw);
  UnbindWindow(window);
  call->windows.erase(window->key >> kTagBits);
  --static_cast<StandInDomain*>(mw->pd)->users;
  --call->objects;
  delete window;
  return 0;
}

std::optional<std::vector<uint8_t>> Gather(const StandInPair& pair, const std::vector<ibv_sge>& sges) {
  std::vector<uint8_t> bytes;
  for (const ibv_sge& sge : sges) {
    if (!LocalAllows(pair, sge, 0)) return std::nullopt;
    const auto* const first = reinterpret_cast<const uint8_t*>(sge.addr);
    bytes.insert(bytes.end(), first, first + sge.length);
  }
  return bytes;
}

bool Scatter(const StandInPair& pair, const std::vector<uint8_t>& bytes, const std::vector<ibv_sge>& sges) {
  size_t done = 0;
  for (const ibv_sge& sge : sges) {
    if (!LocalAllows(pair, sge, IBV_ACCESS_LOCAL_WRITE)) return false;
    const size_t length = std::min<size_t>(sge.length, bytes.size() - done);
    if (length > 0) std::memcpy(reinterpret_cast<void*>(sge.addr), bytes.data() + done, length);
    done += length;
  }
  return true;
}

bool RemoteAllows(const StandInPair& responder, uint32_t key, uint64_t address, uint64_t length, unsigned int right) {
  if (length == 0) return true;
  if ((responder.access & right) == 0) return false;
  const StandInDevice& device = StandInDevice::Get();
  if (const StandInRegion* const region = Find(device.regions, key)) {
    return region->rkey == key && region->pd == responder.pd && (region->access & right) != 0 &&
           Lies(address, length, reinterpret_cast<uint64_t>(region->addr), region->length);
  }
  const StandInWindow* const window = Find(device.windows, key);
  return window != nullptr && window->key == key && window->region != nullptr && window->pair == &responder &&
         (window->range.mw_access_flags & right) != 0 &&
         Lies(address, length, window->range.addr, window->range.length);
}

ibv_wc_status BindWindow(const StandInPair& pair, const ibv_send_wr& request) {
  const ibv_mw_bind_info& range = request.bind_mw.bind_info;
  const uint32_t key = request.bind_mw.rkey;
  StandInDevice& device = StandInDevice::Get();
  StandInWindow* const window = Find(device.windows, key);
  StandInRegion* const region = range.mr == nullptr ? nullptr : Find(device.regions, range.mr->lkey);
  if (window == nullptr || window != request.bind_mw.mw || window->region != nullptr || window->key == key ||
      window->pd != pair.pd || region == nullptr || region != range.mr || region->pd != pair.pd) {
    return IBV_WC_MW_BIND_ERR;
  }
  const bool writes = (range.mw_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0;
  if ((region->access & IBV_ACCESS_MW_BIND) == 0 || (writes && (region->access & IBV_ACCESS_LOCAL_WRITE) == 0) ||
      !Lies(range.addr, range.length, reinterpret_cast<uint64_t>(region->addr), region->length)) {
    return IBV_WC_MW_BIND_ERR;
  }
  window->key = key;
  window->region = region;
  window->pair = &pair;
  window->range = range;
  ++region->windows;
  return IBV_WC_SUCCESS;
}

bool InvalidateWindow(const StandInPair& pair, uint32_t key) {
  StandInWindow* const window = Find(StandInDevice::Get().windows, key);
  if (window == nullptr || window->key != key || window->region == nullptr || window->pair != &pair) return false;
  UnbindWindow(window);
  return true;
}

void UnbindWindow(StandInWindow* window) {
  if (window->region == nullptr) return;
  --window->region->windows;
  window->region = nullptr;
  window->pair = nullptr;
}

}  // namespace rdmabroker::verbs

using rdmabroker::verbs::Call;
using rdmabroker::verbs::kTagBits;
using rdmabroker::verbs::MakeRegion;
using rdmabroker::verbs::StandInDomain;
using rdmabroker::verbs::StandInRegion;

// The header's own names for these lead to one of the two functions.
#undef ibv_reg_mr

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  Call call("ibv_alloc_pd");
  if (call.error() != 0) return Call::Fail(call.error());
  auto* const made = new StandInDomain();
  made->context = context;
  ++call->objects;
  return made;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  Call call("ibv_dealloc_pd");
  if (call.error() != 0) return call.error();
  auto* const domain = static_cast<StandInDomain*>(pd);
  if (domain->users > 0) return EBUSY;
  --call->objects;
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t length, int access) {
  return MakeRegion(domain, address, length, static_cast<unsigned int>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, size_t length, uint64_t, unsigned int access) {
  return MakeRegion(domain, address, length, access);
}

int ibv_dereg_mr(ibv_mr* mr) {
  Call call("ibv_dereg_mr");
  if (call.error() != 0) return call.error();
  auto* const region = static_cast<StandInRegion*>(mr);
  if (region->windows > 0) return EBUSY;
  call->regions.erase(region->lkey >> kTagBits);
  --static_cast<StandInDomain*>(region->pd)->users;
  --call->objects;
  delete region;
  return 0;
}

}  // extern "C"
