//! The handlers of a server, and the way of a message through them.
use crate::limits::CONTROL_TIME_MAX;
use crate::notify::{self, NotifyHandler};
use crate::query::QueryHandler;
use crate::signed::Verifier;
use crate::transfer::TransferHandler;
use crate::update::{self, UpdateHandler};
use crate::{Decision, MessageHandler, ReceivedMessage, ServerContext};
use api::Credentials;
use config::UpdateWait;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use wire::Rcode;

/// Bit n: messages of opcode n have a handler; bit 0: queries for transfers, besides signed ones.
pub fn handled_opcodes(update: UpdateWait, transfers: bool) -> u16 {
    let update = u16::from(update != UpdateWait::Off) << update::OPCODE;
    1 << notify::OPCODE | update | u16::from(transfers)
}

/// The handlers of a server.
#[derive(Clone)]
pub struct Handlers {
    verifier: Arc<Verifier>,
    list: Arc<[Arc<dyn MessageHandler>]>,
    /// How long one may take.
    limit: Duration,
}

impl Handlers {
    /// All of them. `update`: what an UPDATE waits for.
    pub fn of_server(server: &Arc<dyn ServerContext>, update: UpdateWait) -> Self {
        let list: [Arc<dyn MessageHandler>; 4] = [
            Arc::new(TransferHandler(Arc::clone(server))),
            Arc::new(QueryHandler(Arc::clone(server))),
            Arc::new(NotifyHandler::new(Arc::clone(server))),
            Arc::new(UpdateHandler { server: Arc::clone(server), wait: update }),
        ];
        Self::new(Arc::clone(server.credentials()), list)
    }

    /// These handlers; messages are verified with the keys of these credentials.
    pub(crate) fn new(
        credentials: Arc<Credentials>,
        list: impl Into<Arc<[Arc<dyn MessageHandler>]>>,
    ) -> Self {
        let verifier = Arc::new(Verifier::new(credentials));
        Self { verifier, list: list.into(), limit: CONTROL_TIME_MAX }
    }

    /// Gives handlers another time.
    #[cfg(test)]
    pub(crate) fn limited_to(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Decides a message. It always gets an answer, or a thread would keep it.
    pub(crate) fn decide(
        &self,
        message: ReceivedMessage,
    ) -> impl Future<Output = Decision> + use<> {
        let (client, transport, opcode) = (message.client, message.transport, message.opcode());
        let handler = self.list.iter().find(|handler| handler.takes(&message)).map(Arc::clone);
        let (verifier, limit) = (Arc::clone(&self.verifier), self.limit);
        async move {
            let Some(handler) = handler else { return Decision::Code(Rcode::NotImp) };
            // A task of its own, so that a panic costs one message.
            let task = tokio::spawn(async move { verifier.decide(handler, message).await });
            let end = task.abort_handle();
            match timeout(limit, task).await {
                Ok(Ok(decision)) => return decision,
                Ok(Err(error)) => {
                    let what =
                        "a message is answered SERVFAIL, because its handler panicked, a defect";
                    tracing::error!(%client, ?transport, opcode, "{what}: {error}");
                }
                Err(_) => {
                    end.abort();
                    let what = "a message is answered SERVFAIL: its handler took too long";
                    tracing::warn!(%client, ?transport, opcode, ?limit, "{what}");
                }
            }
            Decision::Code(Rcode::ServFail)
        }
    }
}
