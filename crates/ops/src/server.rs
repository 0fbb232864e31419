//! Connections: accepted, bounded, and ended.
use crate::Ops;
use crate::answer::Desk;
use crate::limits::{
    ACCEPT_PAUSE, CONNECTION_TIME_MAX, CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX, DENIED_MAX,
    DENIED_TIME_MAX, HEADER_LEN_MAX, HEADER_TIME_MAX, HEADERS_MAX, LAST_CALL,
};
use control::seats::{Places, Seat, Seats};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Answers on `listener` until `stop` is there, and then what is under way. To be run on a tokio
/// runtime with time and network.
///
/// # Errors
/// When the listener is of no use.
pub async fn serve(
    listener: std::net::TcpListener,
    ops: Ops,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let allow = Arc::clone(&ops.allow);
    let desk = Arc::new(Desk::new(ops));
    let places =
        Places { all: CONNECTIONS_MAX, of_client: CONNECTIONS_PER_CLIENT_MAX, denied: DENIED_MAX };
    let seats = Arc::new(Seats::new(places));
    let mut open = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            // What has ended is let go of.
            Some(_) = open.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let address = peer.ip().to_canonical();
                    let allowed = allow(address);
                    let seat = if allowed { seats.take(address) } else { seats.take_denied() };
                    desk.count_connection(allowed, seat.is_some());
                    if let Some(seat) = seat {
                        open.spawn(talk(stream, Arc::clone(&desk), seat, allowed));
                    }
                }
                Err(why) => {
                    tracing::warn!("a connection to [ops] could not be accepted: {why}");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    let ended = async { while open.join_next().await.is_some() {} };
    // Those that are not done by then are cut off as the set is dropped.
    let _ = timeout(LAST_CALL, ended).await;
    Ok(())
}

/// One request and its response.
async fn talk(stream: TcpStream, desk: Arc<Desk>, seat: Seat, allowed: bool) {
    let service = service_fn(|request| {
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(desk.answer(request, allowed).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME_MAX)
        .max_buf_size(HEADER_LEN_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let time_max = if allowed { CONNECTION_TIME_MAX } else { DENIED_TIME_MAX };
    // A client that breaks the protocol or is too slow is cut off; that is its own affair.
    let _ = timeout(time_max, connection).await;
    drop(seat);
}
