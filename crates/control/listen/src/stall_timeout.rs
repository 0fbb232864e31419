//! Closes a connection whose client neither sends nor reads for too long, or reads a response below
//! the minimum rate.
use crate::limits::{READ_RATE_MIN, READ_RATE_TIME, STALL_TIME_MAX};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// The connection, and when it times out.
pub struct StallTimeout<S> {
    stream: S,
    until: Pin<Box<Sleep>>,
    reading: ReadRate,
}

/// Measures how fast the client reads, only while data is waiting for it.
#[derive(Default)]
struct ReadRate {
    /// Since when the kernel's buffer is full.
    blocked_since: Option<Instant>,
    /// How long it was full within the measured time, and the bytes that were read.
    blocked: Duration,
    bytes: u64,
}

impl ReadRate {
    /// Records the result of a write. False: the client is too slow.
    fn note(&mut self, written: Option<usize>, now: Instant) -> bool {
        if let Some(since) = self.blocked_since.take() {
            self.blocked += now - since;
        }
        match written {
            Some(bytes) => self.bytes += bytes as u64,
            None => self.blocked_since = Some(now),
        }
        if self.blocked < READ_RATE_TIME {
            return true;
        }
        let is_fast_enough = self.bytes >= READ_RATE_MIN * READ_RATE_TIME.as_secs();
        (self.blocked, self.bytes) = (Duration::ZERO, 0);
        is_fast_enough
    }
}

impl<S> StallTimeout<S> {
    /// Watches this connection from now on.
    pub fn new(stream: S) -> Self {
        Self { stream, until: Box::pin(sleep(STALL_TIME_MAX)), reading: ReadRate::default() }
    }

    /// Checks the result of a read or write.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        tried: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if tried.is_pending() {
            ready!(self.until.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.until.as_mut().reset(Instant::now() + STALL_TIME_MAX);
        tried
    }

    /// Checks the result of a write, and how fast the client reads.
    fn judge_write(
        &mut self,
        context: &mut Context<'_>,
        tried: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = match &tried {
            Poll::Ready(written) => Some(*written.as_ref().unwrap_or(&0)),
            Poll::Pending => None,
        };
        if !self.reading.note(written, Instant::now()) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.judge(context, tried)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_read(context, into);
        self.judge(context, tried)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge_write(context, tried)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.judge_write(context, tried)
    }

    /// If the stream can, a body is written from where it is and not copied first, so what counts
    /// as a response in progress is all that it takes.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, tried)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, tried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::runtime::Builder;
    use tokio::time::advance;

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn client_that_neither_sends_nor_reads_is_closed() {
        block_on(async {
            let (near, mut far) = duplex(8);
            let mut near = StallTimeout::new(near);
            far.write_all(b"a").await.expect("room");
            advance(STALL_TIME_MAX / 2).await;
            near.read_u8().await.expect("it sends in time");
            let told = near.read_u8().await.expect_err("it sends nothing more");
            assert_eq!(told.kind(), io::ErrorKind::TimedOut);
            let told = near.write_all(&[0; 9]).await.expect_err("it reads nothing");
            assert_eq!(told.kind(), io::ErrorKind::TimedOut);
        });
    }

    /// The outcome for a client that reads this many bytes a second in chunks.
    async fn respond(bytes_per_second: usize) -> io::Result<()> {
        let (near, mut far) = duplex(bytes_per_second);
        let mut near = StallTimeout::new(near);
        let reader = tokio::spawn(async move {
            let mut piece = vec![0; bytes_per_second];
            while far.read_exact(&mut piece).await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let wrote = near.write_all(&vec![0; bytes_per_second * 60]).await;
        reader.abort();
        wrote
    }

    #[test]
    fn client_that_reads_a_little_all_the_time_is_closed() {
        block_on(async {
            let error = respond(READ_RATE_MIN as usize / 2).await.expect_err("too slow");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            respond(READ_RATE_MIN as usize * 2).await.expect("fast enough");
        });
    }

    #[test]
    fn pauses_between_requests_are_not_measured() {
        block_on(async {
            let (near, mut far) = duplex(8);
            let mut near = StallTimeout::new(near);
            for _ in 0..100 {
                near.write_all(b"pong").await.expect("room");
                far.read_exact(&mut [0; 4]).await.expect("pong");
                far.write_all(b"ping").await.expect("room");
                near.read_exact(&mut [0; 4]).await.expect("ping");
                advance(READ_RATE_TIME).await;
            }
        });
    }
}
