//! Chooses the socket by the CPU that received the packet.

use crate::limits::STEERED_MAX;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SKF_AD_OFF + SKF_AD_CPU`: loads at this offset read the number of the CPU.
const CPU_OFFSET: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32;

/// Makes the kernel hand each datagram to the socket of the worker on the CPU that received it,
/// instead of to one chosen by the hash of the addresses. Needs no privilege.
///
/// It helps where few clients make the load, whose hashes may fall on few workers, and where every
/// worker stays on its CPU. It harms where the device has fewer receive queues than there are
/// workers and the kernel does not spread packets itself (RPS): the workers of the CPUs that no
/// queue interrupts get nothing.
///
/// `fd` is any one of the sockets bound to an address; all of them follow. `cpus[i]` is the CPU of
/// the worker that has the socket which was bound i-th. What other CPUs receive is spread over the
/// sockets by the CPU's number.
///
/// # Errors
/// There are no sockets or more than [`STEERED_MAX`], or the kernel does not take the program.
pub fn steer(fd: BorrowedFd<'_>, cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() || cpus.len() > STEERED_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "1 to 1,024 sockets are steered"));
    }
    attach(fd, assemble(cpus))
}

/// Makes the kernel pass each datagram to a random one of the first `count` sockets bound to an
/// address, until [`steer`] or [`unsteer`]. Sockets bound later receive nothing while they are not
/// read.
///
/// # Errors
/// The kernel rejects the program, for example for a socket without `SO_REUSEPORT`.
pub fn confine(fd: BorrowedFd<'_>, count: usize) -> io::Result<()> {
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let program = vec![
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, random, 0, 0),
        op(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count as u32, 0, 0),
        op(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    ];
    attach(fd, program)
}

fn attach(fd: BorrowedFd<'_>, mut program: Vec<libc::sock_filter>) -> io::Result<()> {
    let code = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let size = size_of_val(&code) as libc::socklen_t;
    // SAFETY: `code` is live and points to `len` instructions, which the kernel copies and checks.
    let done = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF);
        libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const code).cast(), size)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Undoes [`steer`] and [`confine`] of any process: sockets keep their program when they are handed
/// over. Without a program it does nothing.
///
/// # Errors
/// The kernel does not detach the program.
pub fn unsteer(fd: BorrowedFd<'_>) -> io::Result<()> {
    let (value, size) = (0, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the option's value, which is ignored, is a live `i32` and `size` is its size.
    let done = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF);
        libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size)
    };
    match io::Error::last_os_error() {
        _ if done == 0 => Ok(()),
        // Nothing is attached; or nothing can be, as the socket is alone at its address.
        error if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(()),
        error => Err(error),
    }
}

fn op(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// `A = cpu; for each i: if A = cpus[i] return i; return A mod the number of sockets.`
fn assemble(cpus: &[usize]) -> Vec<libc::sock_filter> {
    let mut program = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, CPU_OFFSET, 0, 0)];
    for (socket, &cpu) in cpus.iter().enumerate() {
        program.push(op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, cpu as u32, 0, 1));
        program.push(op(libc::BPF_RET | libc::BPF_K, socket as u32, 0, 0));
    }
    program.push(op(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, cpus.len() as u32, 0, 0));
    program.push(op(libc::BPF_RET | libc::BPF_A, 0, 0, 0));
    program
}
