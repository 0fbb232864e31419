//! A connection that is given up when it gets on neither way for too long.
use crate::limits::STALL_TIME_MAX;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// The connection, and how long it may yet stall.
pub struct Patient<S> {
    stream: S,
    until: Pin<Box<Sleep>>,
}

impl<S> Patient<S> {
    /// This connection, from now on.
    pub fn new(stream: S) -> Self {
        Self { stream, until: Box::pin(sleep(STALL_TIME_MAX)) }
    }

    /// What came of trying to get on.
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
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_read(context, into);
        self.judge(context, tried)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(context, octets);
        self.judge(context, tried)
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

    #[test]
    fn who_neither_sends_nor_reads_is_given_up() {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let (near, mut far) = duplex(8);
            let mut near = Patient::new(near);
            far.write_all(b"a").await.expect("room");
            advance(STALL_TIME_MAX / 2).await;
            near.read_u8().await.expect("it sends in time");
            let told = near.read_u8().await.expect_err("it sends nothing more");
            assert_eq!(told.kind(), io::ErrorKind::TimedOut);
            let told = near.write_all(&[0; 9]).await.expect_err("it reads nothing");
            assert_eq!(told.kind(), io::ErrorKind::TimedOut);
        });
    }
}
