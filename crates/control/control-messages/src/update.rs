//! UPDATE (RFC 2136): a write of the store, as one over REST. NOERROR means that it is on the disk
//! and served.
use crate::{Deciding, Decision, MessageHandler, ReceivedMessage, ServerContext, Signature};
use api::{Principal, Verb};
use config::UpdateWait;
use dynamic_update::{NotAnUpdate, Update};
use model::BrokenRule;
use records::{Refused, WriteContext, WriteResult};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::{NameBuf, Rcode};

/// The opcode.
pub(crate) const OPCODE: u8 = 5;

/// Decides messages that a principal has signed; others are refused.
pub(crate) struct UpdateHandler {
    pub server: Arc<dyn ServerContext>,
    pub wait: UpdateWait,
}

impl MessageHandler for UpdateHandler {
    fn takes(&self, message: &ReceivedMessage) -> bool {
        message.opcode() == OPCODE
    }

    fn handle(self: Arc<Self>, message: ReceivedMessage) -> Deciding {
        Box::pin(async move {
            let rcode = match &message.signature {
                Some(Signature { principal, .. }) => self.decide(&message, principal).await,
                None => Rcode::Refused,
            };
            Decision::Code(rcode)
        })
    }
}

impl UpdateHandler {
    async fn decide(&self, message: &ReceivedMessage, principal: &Arc<Principal>) -> Rcode {
        let update = match Update::read(&message.bytes) {
            Ok(update) => update,
            Err(NotAnUpdate::Malformed) => return Rcode::FormErr,
            Err(NotAnUpdate::Class) => return Rcode::NotAuth,
        };
        let (zone, names) = (update.zone.clone(), update.summary());
        let done = self.write(update, principal).await;
        log(message.client, principal, (&zone, &names), &done)
    }

    /// Writes it, and waits until it is served.
    async fn write(
        &self,
        update: Update,
        principal: &Arc<Principal>,
    ) -> Result<WriteResult, Refused> {
        let Some(records) = self.server.records() else {
            let why = "it is not open yet: the server starts, or `dunlin status` says why";
            return Err(Refused::Unavailable(why.into()));
        };
        let zone = update.zone.clone();
        // RFC 2136 §3.3, before the prerequisites say anything about the zone.
        if !principal.may_in(Verb::Write, zone.as_name()) {
            let what = format!("no grant of the key allows to write in the zone {zone}");
            return Err(Refused::Unmet { rcode: Rcode::Refused, what: what.into() });
        }
        let context = WriteContext {
            reason: Some("UPDATE".into()),
            rights: Some(Arc::clone(principal) as _),
            ..WriteContext::by(principal.name.as_str())
        };
        let plan = update.planned(Arc::clone(principal) as _);
        let written = records.write_planned(zone, plan, context).await?;
        records.wait_live(written.zone).await?;
        if let (UpdateWait::Fleet, Some(fleet)) = (self.wait, records.fleet()) {
            fleet.wait(written.zone).await?;
        }
        Ok(written)
    }
}

/// Writes the audit log; returns the code of the response.
fn log(
    client: SocketAddr,
    principal: &Principal,
    (zone, names): (&NameBuf, &str),
    done: &Result<WriteResult, Refused>,
) -> Rcode {
    let principal = &principal.name;
    match done {
        Ok(written) => {
            let revision = written.revision.0;
            tracing::info!(
                target: "api::audit", principal, %client, %zone, names, revision, "audit: update"
            );
            for warning in &written.warnings {
                let (name, rtype) = (&warning.name, warning.rtype);
                tracing::warn!(%name, %rtype, "update: {}: {}", warning.what, warning.help);
            }
            Rcode::NoError
        }
        Err(why) => {
            let rcode = code(why);
            let code = rcode.name();
            tracing::info!(
                target: "api::audit", principal, %client, %zone, names, rcode = code,
                "audit: update refused: {why}"
            );
            rcode
        }
    }
}

/// The response code of a refusal (RFC 2136 §2.2).
fn code(refused: &Refused) -> Rcode {
    match refused {
        Refused::Unmet { rcode, .. } => *rcode,
        Refused::NoSuchZone => Rcode::NotAuth,
        Refused::Invalid(invalid) if invalid.rule == BrokenRule::DATA => Rcode::FormErr,
        Refused::NotTheOwner { .. }
        | Refused::Invalid(_)
        | Refused::HidesWildcard { .. }
        | Refused::TooMany { .. }
        | Refused::Form(_)
        | Refused::ReadOnly => Rcode::Refused,
        _ => Rcode::ServFail,
    }
}
