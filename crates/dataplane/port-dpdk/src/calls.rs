//! The table of calls of the library: `native/dunlin_dpdk.h`, member by member.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// The version of the page that this file repeats.
pub const VERSION: u32 = 2;

/// A received frame, or one to be sent: `len` bytes at `data`, of `room`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawFrame {
    pub buffer: *mut c_void,
    pub data: *mut u8,
    pub len: u32,
    pub room: u32,
}

impl RawFrame {
    /// No frame.
    pub const NONE: Self = Self { buffer: ptr::null_mut(), data: ptr::null_mut(), len: 0, room: 0 };
}

/// What a device is.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RawDevice {
    pub port: u16,
    pub queues_max: u16,
    pub mtu: u16,
    pub mac: [u8; 6],
    pub driver: [u8; 32],
}

/// What a device counted.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RawCounts {
    pub received: u64,
    pub sent: u64,
    pub missed: u64,
    pub errors: u64,
    pub no_buffer: u64,
    pub send_errors: u64,
    pub segmented: u64,
    pub buffers_free: u32,
    pub buffers: u32,
    pub is_up: u8,
    pub is_gone: u8,
}

/// The calls.
#[derive(Debug)]
#[repr(C)]
pub struct Calls {
    pub version: u32,
    pub size: u32,
    pub release: unsafe extern "C" fn() -> *const c_char,
    pub problem: unsafe extern "C" fn() -> *const c_char,
    pub start: unsafe extern "C" fn(c_int, *mut *mut c_char) -> c_int,
    pub open: unsafe extern "C" fn(*const c_char, *const c_char, u16, *mut RawDevice) -> c_int,
    pub close: unsafe extern "C" fn(u16),
    pub join: unsafe extern "C" fn() -> c_int,
    pub receive: unsafe extern "C" fn(u16, u16, *mut RawFrame, u16) -> u16,
    pub send: unsafe extern "C" fn(u16, u16, *const RawFrame, u16) -> u16,
    pub take: unsafe extern "C" fn(u16, *mut RawFrame) -> c_int,
    pub give_back: unsafe extern "C" fn(*const RawFrame, u16),
    pub count: unsafe extern "C" fn(u16, *mut RawCounts) -> c_int,
    pub interrupts: unsafe extern "C" fn(u16, u16) -> c_int,
    pub arm: unsafe extern "C" fn(u16, u16) -> c_int,
    pub disarm: unsafe extern "C" fn(u16, u16),
}
