//! Sends responses, as long as their clients read them fast enough.
use crate::counters::CutFor;
use crate::limits::{READ_GRACE, READ_RATE_MIN};
use crate::message::TooLong;
use crate::transfers::{Response, ResponseStream, Transfers};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

/// Sends a response; returns whether the connection is still usable.
pub(crate) async fn send<S: AsyncWrite + Unpin>(
    transfers: &Transfers,
    stream: &mut S,
    response: Response,
    client: SocketAddr,
) -> bool {
    let mut pace = Pace::new();
    match response {
        Response::NotOurs => false,
        Response::One(message) => pace.send(stream, &message).await.is_ok(),
        Response::Many(mut messages) => {
            let sent = send_all(&mut pace, stream, &mut messages).await;
            finish(transfers, &messages, &pace, client, sent)
        }
    }
}

async fn send_all<S: AsyncWrite + Unpin>(
    pace: &mut Pace,
    stream: &mut S,
    messages: &mut ResponseStream,
) -> Result<(), (CutFor, String)> {
    let too_long = |why: Box<TooLong>| (CutFor::TooLong, why.to_string());
    while let Some(message) = messages.next_message().map_err(too_long)? {
        pace.send(stream, &message).await?;
    }
    Ok(())
}

/// Counts and logs a transfer; returns whether it was sent.
fn finish(
    transfers: &Transfers,
    messages: &ResponseStream,
    pace: &Pace,
    client: SocketAddr,
    sent: Result<(), (CutFor, String)>,
) -> bool {
    let (summary, records) = (&messages.summary, messages.records());
    let (zone, serial, by) = (&summary.zone, summary.serial, &summary.by);
    let (how, bytes, ms) = (messages.how, pace.sent, pace.begin.elapsed().as_millis());
    match sent {
        Ok(()) => {
            transfers.counters.served(how, records, bytes);
            tracing::info!(%client, by, zone, serial, ?how, records, bytes, ms, "zone transferred");
            true
        }
        Err((why, what)) => {
            transfers.counters.cut(why);
            tracing::warn!(%client, by, zone, serial, records, bytes, ms, "transfer cut: {what}");
            false
        }
    }
}

/// How fast a client reads.
struct Pace {
    begin: Instant,
    sent: u64,
}

impl Pace {
    fn new() -> Self {
        Self { begin: Instant::now(), sent: 0 }
    }

    /// Sends a message, as long as the client reads fast enough.
    async fn send<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        message: &[u8],
    ) -> Result<(), (CutFor, String)> {
        let prefix = (message.len() as u16).to_be_bytes();
        let bytes = [&prefix, message].concat();
        let earned = Duration::from_millis(self.sent * 1_000 / READ_RATE_MIN);
        match timeout_at(self.begin + READ_GRACE + earned, stream.write_all(&bytes)).await {
            Ok(Ok(())) => {
                self.sent += bytes.len() as u64;
                Ok(())
            }
            Ok(Err(why)) => Err((CutFor::Broken, format!("the connection broke: {why}"))),
            Err(_) => {
                let what = "the client does not read it, or reads less than 16 KiB a second";
                Err((CutFor::SlowReader, what.into()))
            }
        }
    }
}
