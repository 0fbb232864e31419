//! Connections for transfers over TLS (RFC 9103).
use crate::counters::RefusedFor;
use crate::delivery::send;
use crate::limits::{IDLE_MAX, SESSIONS_MAX, SESSIONS_PER_CLIENT_MAX};
use crate::message::unsupported;
use crate::transfers::{Peer, Response, Transfers};
use listen::{
    AcceptedConnection, Admission, ConnectionLimits, ConnectionService, Handshake, Tls, accept,
};
use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::timeout;
use wire::Query;

const LIMITS: ConnectionLimits =
    ConnectionLimits { all: SESSIONS_MAX, of_client: SESSIONS_PER_CLIENT_MAX, denied: 0 };

/// Accepts connections of secondaries.
struct TlsService {
    transfers: Arc<Transfers>,
    tls: Arc<Tls>,
}

impl ConnectionService for TlsService {
    const SECTION: &'static str = "[transfer] tls_listen";

    fn count(&self, admission: Admission, _: bool) {
        if admission != Admission::Admitted {
            self.transfers.counters.refused(RefusedFor::Full);
        }
    }

    async fn serve(self: Arc<Self>, connection: AcceptedConnection) {
        let AcceptedConnection { stream, client, permit, .. } = connection;
        let Ok(port) = stream.peer_addr().map(|peer| peer.port()) else { return };
        let Handshake::Done(mut stream, subjects) = self.tls.accept(stream, client).await else {
            return;
        };
        let transfers = &self.transfers;
        let owner = transfers.access.certificate_owner(&subjects);
        let peer = Peer { client: SocketAddr::new(client, port), is_private: true, owner };
        loop {
            let receive = async {
                let mut message = vec![0; stream.read_u16().await?.into()];
                stream.read_exact(&mut message).await.map(|_| message)
            };
            // The client ended it, or left it idle.
            let Ok(Ok(message)) = timeout(IDLE_MAX, receive).await else { return };
            let _request = permit.serve();
            if !answer(transfers, &mut stream, &message, &peer).await {
                return;
            }
        }
    }
}

/// Answers a message. Returns whether the connection is still usable.
async fn answer<S: AsyncWrite + Unpin>(
    transfers: &Transfers,
    stream: &mut S,
    message: &[u8],
    peer: &Peer,
) -> bool {
    let response = match transfers.answer_stream(message, peer.clone()) {
        Response::NotOurs => {
            let mut query = Query::new();
            if query.parse(message, message.len()).is_err() || !query.flags.is_query() {
                return false;
            }
            let head = &message[..query.question_end];
            Response::One(unsupported(head, query.edns.is_some()))
        }
        response => response,
    };
    send(transfers, stream, response, peer.client).await
}

/// Serves transfers over TLS on these listeners, for as long as it is polled.
pub async fn serve(transfers: Arc<Transfers>, listeners: Vec<TcpListener>, tls: Arc<Tls>) {
    for listener in listeners {
        let service = TlsService { transfers: Arc::clone(&transfers), tls: Arc::clone(&tls) };
        let served = accept(listener, Arc::new(service), LIMITS, Duration::ZERO, pending());
        tokio::spawn(async {
            if let Err(why) = served.await {
                tracing::error!("[transfer] tls_listen is not served: {why}");
            }
        });
    }
    tls.follow_files().await;
}
