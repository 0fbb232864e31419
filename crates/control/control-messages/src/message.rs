//! A message, what decides it, and what that needs of the server.
use api::{Credentials, Principal};
use compile::Image;
use handler::{ControlAnswer, Settings};
use packet::Transport;
use records::RecordService;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use transfer::Transfers;
use wire::NameBuf;

/// Decides messages of one kind.
pub trait MessageHandler: Send + Sync {
    /// Whether it decides this message, which is not verified yet. If several handlers do, the
    /// first of the list does it.
    fn takes(&self, message: &ReceivedMessage) -> bool;

    /// Decides a message: checks what its client may do, too. If that takes longer than
    /// [`limits::CONTROL_TIME_MAX`](crate::limits::CONTROL_TIME_MAX), it is dropped where it waits,
    /// and the client gets SERVFAIL.
    fn handle(self: Arc<Self>, message: ReceivedMessage) -> Deciding;
}

/// A decision that is awaited.
pub type Deciding = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// The response. That to a signed message is signed afterwards.
pub type Decision = ControlAnswer<Box<[u8]>>;

/// A message of a client.
#[derive(Clone)]
pub struct ReceivedMessage {
    /// The client, which a proxy may have named.
    pub client: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// The message with a complete header. A handler gets it without its signature.
    pub bytes: Box<[u8]>,
    /// `None`: it is not signed, or not verified yet.
    pub signature: Option<Signature>,
}

impl ReceivedMessage {
    /// Its opcode (RFC 6895 §2.2).
    pub fn opcode(&self) -> u8 {
        self.bytes.get(2).map_or(0, |byte| byte >> 3 & 0xf)
    }
}

/// A correct signature.
#[derive(Clone)]
pub struct Signature {
    /// The principal of the key.
    pub principal: Arc<Principal>,
    /// Bytes of the signature of the response.
    pub response_len: usize,
}

/// What the handlers need of the server.
pub trait ServerContext: Send + Sync + 'static {
    /// The principals with their keys and grants: who may change what.
    fn credentials(&self) -> &Arc<Credentials>;

    /// The service that writes to the store; `None`: the store is not open.
    fn records(&self) -> Option<RecordService>;

    /// The zones as they are served now.
    fn image(&self) -> Image;

    /// Calls `read` with the settings of the workers as they are now.
    fn with_settings(&self, read: &mut dyn FnMut(&Settings));

    /// Transfers of zones to other servers; `None`: there are none.
    fn transfers(&self) -> Option<&Arc<Transfers>>;

    /// Has the source of a zone read it again.
    fn refresh_zone(&self, zone: NameBuf);
}
