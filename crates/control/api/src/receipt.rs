//! Writes: their query parameters, waiting for them, and their receipts.
use crate::caller::Caller;
use crate::condition::tag;
use crate::limits::{LIVE_TIME_MAX, SHADOWS_TOLD_MAX, WRITE_TIME_MAX};
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::shadow::{ShadowBody, ShadowedSet};
use crate::state::ApiState;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::ETAG;
use model::BrokenRule;
use records::{
    Precondition, Refused, Revision, SetKey, SetWarning, View, WriteContext, WriteResult,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use store::limits::REASON_LEN_MAX;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};
use wire::NameBuf;
use zone_manager::Answer;

/// How long the request waits for a write, and the reason for it.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// `live`: respond once every worker serves the write. `fleet`: once every server of the
    /// fleet does. Default: once it is on the disk.
    #[param(inline)]
    pub wait: Option<Wait>,
    /// The reason of the write, for the journal and the audit log.
    #[param(max_length = 255)]
    pub reason: Option<String>,
}

impl WaitQuery {
    /// The author, the reason and the condition of a write.
    ///
    /// # Errors
    /// The reason is too long, or has a control character.
    pub fn context(&self, caller: &Caller, expect: Precondition) -> Result<WriteContext, Problem> {
        let reason = self.reason.as_deref().filter(|reason| !reason.is_empty());
        if reason.is_some_and(|reason| reason.len() > REASON_LEN_MAX) {
            let what = format!("has more than {REASON_LEN_MAX} bytes");
            return Err(Problem::invalid("reason", BrokenRule::LIMIT, what));
        }
        if reason.is_some_and(|reason| reason.chars().any(char::is_control)) {
            let what = "has a control character: it is one line of text";
            return Err(Problem::invalid("reason", BrokenRule::SYNTAX, what));
        }
        let reason = reason.map(Arc::<str>::from);
        if let Some(reason) = &reason {
            caller.note_reason(Arc::clone(reason));
        }
        let rights = Some(caller.rights());
        Ok(WriteContext { reason, expect, rights, ..WriteContext::by(caller.name()) })
    }
}

/// The condition that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Every worker serves the write.
    Live,
    /// Every living server of the fleet serves the write. Without a fleet, as `live`.
    Fleet,
}

/// A write that is on the disk.
#[derive(Debug, Serialize, ToSchema)]
pub struct Receipt {
    /// The revision of the write. It is the entity tag of each set that it wrote, and of the zone.
    /// If nothing changed: the existing entity tag.
    pub revision: u64,
    /// The revision of the zone.
    #[serde(skip)]
    pub zone: Revision,
    /// Whether every worker serves it. False if the request did not wait for that, or if DNS does
    /// not serve all that was put.
    pub live: bool,
    /// The record or zone that hides the one record set that was put, if the request waited and it
    /// is not live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadowed_by: Option<ShadowBody>,
    /// The hidden ones of several record sets that were put, up to 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub shadowed: Vec<ShadowedSet>,
    /// Warnings of `dunlin check` about the sets of the request and the NS sets that depend on
    /// them. They are written nevertheless.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub warnings: Vec<WarningBody>,
}

/// A warning about a record set that is valid, and probably a mistake.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WarningBody {
    /// The name of the set.
    name: String,
    /// Its type.
    #[serde(rename = "type")]
    rtype: String,
    /// The rule: a word that never changes.
    rule: String,
    /// The fault.
    detail: String,
    /// The remedy.
    help: String,
}

impl From<SetWarning> for WarningBody {
    fn from(SetWarning { name, rtype, rule, what, help }: SetWarning) -> Self {
        let (name, rtype, rule) = (name.to_string(), rtype.to_string(), rule.id.to_owned());
        Self { name, rtype, rule, detail: what, help }
    }
}

/// The warnings that a principal may read.
pub fn warnings(caller: &Caller, zone: &NameBuf, found: Vec<SetWarning>) -> Vec<WarningBody> {
    let may_read = |warning: &SetWarning| {
        let (zone, name, rtype) = (zone.clone(), warning.name.clone(), warning.rtype);
        let key = SetKey { zone, name, rtype, view: View::DEFAULT };
        caller.may(Verb::Read, &key) || caller.may(Verb::Write, &key)
    };
    found.into_iter().filter(may_read).map(WarningBody::from).collect()
}

impl Receipt {
    /// The receipt of a write that is not hidden.
    pub fn new(revision: Revision, zone: Revision, live: bool) -> Self {
        let (shadowed, warnings) = (Vec::new(), Vec::new());
        Self { revision: revision.0, zone, live, shadowed_by: None, shadowed, warnings }
    }

    /// Adds which of these sets are hidden: then the write is not live.
    pub fn with_shadows(mut self, state: &ApiState, sets: &[SetKey]) -> Self {
        let Some(records) = state.records().ok().filter(|_| self.live) else { return self };
        for (set, shadow) in sets.iter().zip(records.shadows(sets)) {
            let Some(shadow) = shadow else { continue };
            self.live = false;
            let shadow = ShadowBody::from(shadow);
            if let [_] = sets {
                self.shadowed_by = Some(shadow);
            } else if self.shadowed.len() < SHADOWS_TOLD_MAX {
                let (name, rtype) = (set.name.to_string(), set.rtype.to_string());
                self.shadowed.push(ShadowedSet { name, rtype, shadowed_by: shadow });
            }
        }
        self
    }

    /// A response with the entity tag of the set that was written.
    pub fn tagged(self) -> Response {
        ([(ETAG, tag(Revision(self.revision)))], axum::Json(self)).into_response()
    }

    /// A response with the entity tag of the zone that was written.
    pub fn tagged_zone(self) -> Response {
        ([(ETAG, tag(self.zone))], axum::Json(self)).into_response()
    }
}

/// Waits until a write is on the disk and, if asked for, live. `field` names an edit's place in the
/// request.
pub async fn receipt(
    state: &ApiState,
    caller: &Caller,
    (origin, writing): (&NameBuf, Answer<WriteResult, Refused>),
    wait: Option<Wait>,
    field: impl FnMut(usize, &str) -> String,
) -> Result<Receipt, Problem> {
    let begun = Instant::now();
    let WriteResult { revision, zone, warnings: found, .. } = written(writing, field).await?;
    caller.note_revision(revision);
    state.api.counters.durable(begun.elapsed());
    if let Some(wait) = wait {
        wait_for(state, wait, revision).await?;
        state.api.counters.live(begun.elapsed());
    }
    let warnings = warnings(caller, origin, found);
    Ok(Receipt { warnings, ..Receipt::new(revision, zone, wait.is_some()) })
}

/// Waits until a write is on the disk.
pub async fn written(
    writing: Answer<WriteResult, Refused>,
    field: impl FnMut(usize, &str) -> String,
) -> Result<WriteResult, Problem> {
    let Ok(written) = timeout(WRITE_TIME_MAX, writing).await else {
        let seconds = WRITE_TIME_MAX.as_secs();
        let detail = format!(
            "the write is not on the disk after {seconds} s; it may be later: GET shows whether"
        );
        return Err(Problem::later("slow-disk", detail));
    };
    written.map_err(|refused| Problem::refused(refused, field))
}

/// Waits until every worker serves a revision, or every server does.
///
/// # Errors
/// One does not serve it in time. It is written nevertheless.
pub async fn wait_for(state: &ApiState, wait: Wait, revision: Revision) -> Result<(), Problem> {
    let records = state.records()?;
    match timeout(LIVE_TIME_MAX, records.wait_live(revision)).await {
        Ok(Ok(())) => match records.fleet().filter(|_| wait == Wait::Fleet) {
            None => Ok(()),
            Some(fleet) => {
                let served = fleet.wait(revision).await;
                served.map_err(|refused| Problem::refused(refused, plainly))
            }
        },
        Ok(Err(refused)) => Err(Problem::refused(refused, plainly)),
        Err(_) => {
            let seconds = LIVE_TIME_MAX.as_secs();
            let detail = format!(
                "written as revision {revision}, but a worker did not serve it {seconds} s later"
            );
            Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "not-live", detail))
        }
    }
}
