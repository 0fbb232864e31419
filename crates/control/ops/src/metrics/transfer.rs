//! The metrics of transfers to other servers.
use super::Kind::{Counter, Gauge};
use super::with_all;
use crate::exposition::Exposition;
use server_status::TransferStatus;

/// Writes what has become of transfers, if there are any.
pub fn write(out: &mut Exposition, transfer: Option<&TransferStatus>) {
    let Some(transfer) = transfer else { return };
    out.family("dunlin_transfer_active", Gauge, "Transfers of zones in progress.")
        .sample(&[], transfer.active);
    let help = "Transfers of zones to other servers, by what was sent.";
    let mut family = out.family("dunlin_transfers", Counter, help);
    for (sent, count) in with_all(&[], &transfer.served) {
        family.sample(&[("sent", sent)], count);
    }
    let help = "Refused queries for transfers, by reason.";
    let mut family = out.family("dunlin_transfers_refused", Counter, help);
    for (reason, count) in with_all(&[], &transfer.refused) {
        family.sample(&[("reason", reason)], count);
    }
    let help = "Transfers that were cut off, by reason.";
    let mut family = out.family("dunlin_transfers_cut", Counter, help);
    for (reason, count) in with_all(&[], &transfer.cut) {
        family.sample(&[("reason", reason)], count);
    }
    out.family("dunlin_transfer_records", Counter, "Records sent in transfers.")
        .sample(&[], transfer.records);
    out.family("dunlin_transfer_bytes", Counter, "Bytes sent in transfers.")
        .sample(&[], transfer.bytes);
    let help = "Messages that tell other servers of changes (NOTIFY), by what became of them.";
    let mut family = out.family("dunlin_transfer_notifications", Counter, help);
    for (outcome, count) in with_all(&[], &transfer.notifications) {
        family.sample(&[("outcome", outcome)], count);
    }
    let help = "Bytes of differences between versions of zones that are kept for IXFR.";
    out.family("dunlin_transfer_history_bytes", Gauge, help).sample(&[], transfer.history_bytes);
}
