//! Streams of bytes between two ends, for threads that wait and for tasks.
use crate::limits::{PATIENCE, SPINS};
use crate::ring_buffer::{Reader, Writer};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One end of a connection.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Ring(RingStream),
}

/// One end of two rings.
pub struct RingStream {
    reader: Reader,
    writer: Writer,
    /// Looks before the CPU is given to others.
    spins: u32,
}

impl RingStream {
    pub fn new((reader, writer): (Reader, Writer), is_same_cpu: bool) -> Self {
        Self { reader, writer, spins: if is_same_cpu { 0 } else { SPINS } }
    }
}

/// Looks until something is there.
fn poll<T>(spins: u32, mut one: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    for _ in 0..=spins {
        if let Some(found) = one()? {
            return Ok(found);
        }
        std::hint::spin_loop();
    }
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = one()? {
            return Ok(found);
        }
        thread::yield_now();
        if Instant::now() > end {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
            Self::Ring(ring) => poll(ring.spins, || Ok(ring.reader.try_read(bytes))),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Ring(ring) => poll(ring.spins, || ring.writer.try_write(bytes)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An end for a task.
pub trait TaskStream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> TaskStream for T {}

impl Stream {
    /// The same for a task.
    pub fn for_task(self) -> io::Result<Box<dyn TaskStream>> {
        Ok(match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                Box::new(tokio::net::TcpStream::from_std(stream)?)
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Box::new(tokio::net::UnixStream::from_std(stream)?)
            }
            Self::Ring(ring) => Box::new(ring),
        })
    }
}

/// A ring wakes no task: it checks again.
fn again<T>(spins: u32, context: &Context<'_>) -> Poll<T> {
    if spins == 0 {
        thread::yield_now();
    }
    context.waker().wake_by_ref();
    Poll::Pending
}

impl AsyncRead for RingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let spins = self.spins;
        match self.reader.try_read(into.initialize_unfilled()) {
            None => again(spins, context),
            Some(len) => {
                into.advance(len);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for RingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let spins = self.spins;
        match self.writer.try_write(bytes) {
            Ok(None) => again(spins, context),
            Ok(Some(len)) => Poll::Ready(Ok(len)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
