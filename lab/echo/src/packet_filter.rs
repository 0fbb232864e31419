//! Filters of packet sockets: conditions that the kernel checks, in its own language (classic BPF).

use crate::sockets::set_value;
use std::os::fd::{AsRawFd, OwnedFd};
use std::{io, mem};

/// A load, its offset from the beginning of the IP header, a mask, and the value that the masked
/// load must have.
pub type Condition = (u32, u32, u32, u32);

pub const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
pub const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
pub const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;

/// Binds a packet socket to the packets of a protocol (ETH_P_…) at an interface.
///
/// # Errors
/// The interface is gone.
pub fn bind(socket: &OwnedFd, protocol: i32, interface: u32) -> io::Result<()> {
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = interface as i32;
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is live and as long as `size` says.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the kernel run a program for each packet of the socket.
///
/// # Errors
/// The kernel refuses the program.
pub fn attach(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let (len, filter) = (program.len() as u16, program.as_ptr().cast_mut());
    let program = libc::sock_fprog { len, filter };
    set_value(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// A program that accepts a packet which meets all conditions; without conditions, none.
pub fn program(conditions: Option<&[Condition]>) -> Vec<libc::sock_filter> {
    let mut program = Vec::new();
    if let Some(conditions) = conditions {
        let mut left = conditions.len() as u8;
        for &(load, at, mask, value) in conditions {
            left -= 1;
            program.push(statement(load, at));
            program.push(statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask));
            // Past the conditions that are left, three statements each, and the one that accepts.
            let differs = 3 * left + 1;
            let jump = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value);
            program.push(libc::sock_filter { jf: differs, ..jump });
        }
        program.push(statement(libc::BPF_RET | libc::BPF_K, u32::MAX));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, 0));
    program
}
