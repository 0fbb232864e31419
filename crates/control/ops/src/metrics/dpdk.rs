//! Metrics of the devices that DPDK serves.
use super::Kind::{Counter, Gauge};
use crate::exposition::Exposition;
use server_status::DpdkStatus;

/// Writes what each device and queue counts.
pub fn write(out: &mut Exposition, status: &DpdkStatus) {
    let devices = || status.devices.iter().map(|one| (("device", one.name.as_str()), one));
    let mut family =
        out.family("dunlin_dpdk_up", Gauge, "1 if the device is served and its link up.");
    for (device, one) in devices() {
        family.sample(&[device], u8::from(one.up && !one.gone));
    }
    let mut family = out.family("dunlin_dpdk_frames", Counter, "Frames of a device.");
    for (device, one) in devices() {
        family.sample(&[device, ("direction", "received")], one.received);
        family.sample(&[device, ("direction", "sent")], one.sent);
    }
    let help = "Frames between a device and its interface of the kernel.";
    let mut family = out.family("dunlin_dpdk_host_frames", Counter, help);
    for (device, one) in devices() {
        family.sample(&[device, ("direction", "to_host")], one.to_host);
        family.sample(&[device, ("direction", "from_host")], one.from_host);
    }
    let help = "Frames of a device that were lost or dropped, by reason.";
    let mut family = out.family("dunlin_dpdk_lost", Counter, help);
    for (device, one) in devices() {
        for (reason, count) in &one.lost {
            family.sample(&[device, ("reason", reason.as_str())], *count);
        }
    }
    let mut family = out.family("dunlin_dpdk_buffers", Gauge, "Buffers of a device, by state.");
    for (device, one) in devices() {
        let used = one.buffers.saturating_sub(one.buffers_free);
        family.sample(&[device, ("state", "free")], one.buffers_free);
        family.sample(&[device, ("state", "used")], used);
    }
    let help = "Polls of a queue, by whether they received frames.";
    let mut family = out.family("dunlin_dpdk_polls", Counter, help);
    for (device, one) in devices() {
        for (number, queue) in one.queues.iter().enumerate() {
            let number = number.to_string();
            let number = ("queue", number.as_str());
            let full = queue.polls.saturating_sub(queue.empty_polls);
            family.sample(&[device, number, ("result", "empty")], queue.empty_polls);
            family.sample(&[device, number, ("result", "frames")], full);
        }
    }
}
