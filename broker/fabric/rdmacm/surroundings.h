// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_SURROUNDINGS_H_
#define BROKER_FABRIC_RDMACM_SURROUNDINGS_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "broker/fabric/fabric_records.h"
#include "broker/fabric/handshake_turns.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/former_ids.h"
#include "broker/fabric/rdmacm/unwanted_ids.h"
#include "broker/fabric/report_queue.h"
#include "broker/runtime/blocking_pool.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/warning_limit.h"

namespace rdmabroker {

struct RdmaCmOptions {
  // Whether a queue pair's number is taken from a client of whose process the kernel does not show it: where everybody
  // on the control socket trusts each other, as in a pod. On iWARP devices a connection that is made with another
  // process's number takes that queue pair over; InfiniBand and RoCE need its owner's help in any case, so there such a
  // number is taken either way.
  bool trust_qp_numbers = false;
  HandshakePace handshakes;
};

// What every part of the fabric works with. All of it outlives the parts.
struct RdmaCmSurroundings {
  const RdmaCmOptions& options;
  const std::shared_ptr<const CmFile>& file;  // Shared with work in the pool.
  FabricRecords& records;                     // The device's endpoints' and connections', for the next process.
  Loop& loop;
  BlockingPool& pool;
  ReportQueue& reports;
  UnwantedIds& unwanted;
  WarningLimit& losses;  // Of what ended with the process before.
  WarningLimit& moves;   // Of peers whose MAC address changes.
  FormerIds& former;
  HandshakeTurns& turns;
  // Those of our own begin whose turn it is: soon, and so that what they change in the records is stored before
  // anything leaves for a peer.
  const std::function<void()> begin_next;
  // What has changed in the records is stored when the fabric is left. To be called where that is not for a request of
  // the core's, which has them stored in any case.
  const std::function<void()> store_records;

  // Destroys the id, which may block, and for as long as the kernel waits for a peer: `towards`. `done` runs when
  // nothing of it is left.
  WorkId Destroy(KernelId id, std::function<void()> done, std::optional<Towards> towards = std::nullopt) const {
    return pool.Run([file = file, id] { return file->Destroy(id); },
                    [&reports = reports, done = std::move(done)](int) {
                      ReportQueue::Entry entry(reports);
                      done();
                    },
                    std::move(towards));
  }
  // Of a connect request that nobody has taken.
  void DestroyUnwanted(KernelId id, std::function<void()> done) const {
    unwanted.Add();
    Destroy(id, [&unwanted = unwanted, done = std::move(done)] {
      unwanted.Remove();
      done();
    });
  }
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_SURROUNDINGS_H_
