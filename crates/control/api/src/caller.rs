//! Authentication by a bearer token (RFC 6750 §2.1) or a client certificate, authorization, and the
//! audit log.
use crate::counters::ApiCounters;
use crate::credentials::{CredentialError, now_seconds};
use crate::guarded_body::GuardedBody;
use crate::limits::{
    AUDIT_NAMES_MAX, BODIES_PER_PRINCIPAL_MAX, EXPORTS_PER_PRINCIPAL_MAX,
    REQUESTS_PER_PRINCIPAL_MAX,
};
use crate::powerdns::is_dialect;
use crate::principal::{Principal, Verb};
use crate::problem::Problem;
use crate::quota::Permit;
use crate::state::ApiState;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use listen::ConnectionPermit;
use records::{Edit, Revision, SetKey, WriteRights};
use std::fmt::{self, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::{Name, Rtype};

/// The client of a connection.
#[derive(Clone)]
pub struct Peer {
    /// Where it is.
    pub origin: Origin,
    /// The names of its certificate, which is verified.
    pub subjects: Arc<[String]>,
    /// The permit of a connection over the network.
    pub permit: Option<Arc<ConnectionPermit>>,
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// At this address; IPv4 addresses are never mapped into IPv6.
    Network(IpAddr),
    /// On this machine, at the Unix socket, as a user who may manage the server.
    Local {
        /// The user's number.
        uid: u32,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address) => address.fmt(f),
            Self::Local { uid } => write!(f, "local user {uid}"),
        }
    }
}

/// What the audit log reports of a write beside its request line.
#[derive(Debug, Default)]
struct AuditNotes {
    /// Record sets that the request names.
    changes: Option<usize>,
    names: String,
    reason: Option<Arc<str>>,
    revision: Option<u64>,
}

/// An authenticated client with its request.
#[derive(Clone, Debug)]
pub struct Caller {
    principal: Arc<Principal>,
    origin: Origin,
    notes: Arc<Mutex<AuditNotes>>,
}

impl Caller {
    /// Its name.
    pub fn name(&self) -> Arc<str> {
        self.principal.name.as_str().into()
    }

    /// What it may write, for what its writes hide.
    pub fn rights(&self) -> Arc<dyn WriteRights> {
        Arc::<Principal>::clone(&self.principal)
    }

    fn notes(&self) -> MutexGuard<'_, AuditNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the record sets that the audit log names.
    pub fn note_edits(&self, edits: &[Edit]) {
        let mut notes = self.notes();
        let count = notes.changes.unwrap_or_default();
        for edit in edits.iter().take(AUDIT_NAMES_MAX.saturating_sub(count)) {
            let comma = if notes.names.is_empty() { "" } else { ", " };
            write!(notes.names, "{comma}{} {}", edit.name, edit.rtype).expect("a String takes all");
        }
        if count <= AUDIT_NAMES_MAX && count + edits.len() > AUDIT_NAMES_MAX {
            notes.names += ", …";
        }
        notes.changes = Some(count + edits.len());
    }

    /// Takes one of the principal's concurrent exports.
    ///
    /// # Errors
    /// The principal has the maximum.
    pub fn begin_export(&self, state: &ApiState) -> Result<Permit, Problem> {
        state.own_exports.take(&self.principal.name).ok_or_else(|| {
            let what = format!("{EXPORTS_PER_PRINCIPAL_MAX} exports under way");
            too_many("exports", &self.principal, &what)
        })
    }

    /// Sets the reason that the audit log reports.
    pub fn note_reason(&self, reason: Arc<str>) {
        self.notes().reason = Some(reason);
    }

    /// Sets the written revision that the audit log reports.
    pub fn note_revision(&self, revision: Revision) {
        self.notes().revision = Some(revision.0);
    }

    /// Whether a grant allows this verb on anything in a zone.
    pub fn may_in(&self, verb: Verb, zone: Name<'_>) -> bool {
        self.principal.may_in(verb, zone)
    }

    /// Whether a grant allows this verb on the whole zone.
    pub fn may_all_of(&self, verb: Verb, zone: Name<'_>) -> bool {
        self.principal.may_all_of(verb, zone)
    }

    /// Whether a grant allows this verb on a record set.
    pub fn may(&self, verb: Verb, key: &SetKey) -> bool {
        self.principal.may(verb, key)
    }

    /// Refuses unless a grant allows this verb on anything in a zone. Without one, the response
    /// does not reveal whether the zone exists.
    pub fn check_in(&self, verb: Verb, zone: Name<'_>) -> Result<(), Problem> {
        self.judge(self.may_in(verb, zone), || format!("{} in the zone {zone}", verb.word()))
    }

    /// Refuses unless a grant allows this verb on the whole zone.
    pub fn check_all_of(&self, verb: Verb, zone: Name<'_>) -> Result<(), Problem> {
        let may = self.may_all_of(verb, zone);
        self.judge(may, || format!("use `{}` on the zone {zone}", verb.word()))
    }

    /// Refuses unless a grant allows this verb on all zones and everything in them.
    pub fn check_everything(&self, verb: Verb) -> Result<(), Problem> {
        self.judge(self.principal.may_everything(verb), || format!("{} everything", verb.word()))
    }

    /// Refuses unless a grant allows this verb on a record set.
    pub fn check(&self, verb: Verb, key: &SetKey) -> Result<(), Problem> {
        self.judge(self.may(verb, key), || {
            format!("{} {} {} in the zone {}", verb.word(), key.name, key.rtype, key.zone)
        })
    }

    /// Refuses unless a grant allows to write a set. NS and DNAME hide all names below theirs, so
    /// those names need the grant too (RFC 1034 §4.2.1, RFC 6672 §2.3).
    pub fn check_put(&self, key: &SetKey) -> Result<(), Problem> {
        self.check(Verb::Write, key)?;
        let SetKey { zone, name, rtype, .. } = key;
        let (zone, name) = (zone.as_name(), name.as_name());
        if *rtype != Rtype::DNAME && (*rtype != Rtype::NS || name == zone) {
            return Ok(());
        }
        self.judge(self.principal.may_below(Verb::Write, key), || {
            format!(
                "write {name} {rtype} in the zone {zone}, which hides every name below it (it \
                 needs `write {zone} *.{name} {rtype}` too)"
            )
        })
    }

    /// Refuses unless a grant allows to write a name of a zone and all names below it, because a
    /// new zone is about to take them.
    pub fn check_captured(&self, zone: Name<'_>, name: Name<'_>) -> Result<(), Problem> {
        self.judge(self.principal.may_subtree(Verb::Write, zone, name), || {
            format!(
                "take {name} and the names below it from the zone {zone} (it needs `write {zone}`, \
                 or both `write {zone} {name}` and `write {zone} *.{name}`)"
            )
        })
    }

    /// Refuses unless a grant allows to operate the server.
    pub fn check_operate(&self) -> Result<(), Problem> {
        self.judge(self.principal.may_operate(), || Verb::Operate.word().to_owned())
    }

    /// Refuses unless a grant allows to set the state of this address.
    pub fn check_endpoint(&self, address: IpAddr) -> Result<(), Problem> {
        self.judge(self.principal.may_set(address), || format!("set the state of {address}"))
    }

    /// Whether a grant allows to operate the server.
    pub fn may_operate(&self) -> bool {
        self.principal.may_operate()
    }

    /// Refuses unless it is at the local socket.
    pub fn check_local(&self) -> Result<(), Problem> {
        if matches!(self.origin, Origin::Local { .. }) {
            return Ok(());
        }
        let detail = "credentials are managed only over the local socket: run `dunlin token` on \
                      the server's machine";
        Err(Problem::new(StatusCode::FORBIDDEN, "local-only", detail))
    }

    fn judge(&self, may: bool, what: impl FnOnce() -> String) -> Result<(), Problem> {
        if may { Ok(()) } else { Err(Problem::forbidden(&self.principal.name, &what())) }
    }
}

/// Authenticates a client, and writes the audit log: each request that may change something, and
/// each refused one.
pub async fn admit(State(state): State<ApiState>, mut request: Request, next: Next) -> Response {
    let Some(peer) = request.extensions().get::<Peer>().cloned() else {
        return Problem::unauthenticated("the client is unknown").into_response();
    };
    let principal = match authenticate(&state, &peer, &request) {
        Ok(principal) => principal,
        Err(problem) => return count_refused(&state, problem),
    };
    let request_permit = match take_request(&state, &peer, &principal) {
        Ok(permit) => permit,
        Err(problem) => return count_refused(&state, problem),
    };
    // The connection keeps its permit until the response is taken.
    let serving = (peer.permit.as_ref().map(|permit| permit.serve()), request_permit);
    if !request.body().is_end_stream() {
        let Some(permit) = state.bodies.take(&principal.name) else {
            let most = BODIES_PER_PRINCIPAL_MAX;
            let what = format!("{most} requests whose bodies have not arrived");
            return count_refused(&state, too_many("bodies", &principal, &what));
        };
        request = request.map(|body| Body::new(GuardedBody::new(body, permit)));
    }
    let (notes, origin) = (Arc::default(), peer.origin);
    let caller = Caller { principal: Arc::clone(&principal), origin, notes: Arc::clone(&notes) };
    request.extensions_mut().insert(caller);
    let counters = Arc::clone(&state.api.counters);
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let mut audited =
        AuditedRequest { principal, origin, method, uri, notes, status: HUNG_UP, counters };
    let response = next.run(request).await;
    audited.status = response.status().as_u16();
    response.map(|body| Body::new(GuardedBody::new(body, serving)))
}

/// The principal of a client.
fn authenticate(
    state: &ApiState,
    peer: &Peer,
    request: &Request,
) -> Result<Arc<Principal>, Problem> {
    let address = match peer.origin {
        Origin::Network(address) => address,
        Origin::Local { uid } => return Ok(Arc::new(Principal::local(uid))),
    };
    if state.api.credentials.fault().is_some() {
        let detail = "the credentials file cannot be used, so the API accepts no client: \
                      `dunlin status` and the log show why";
        return Err(Problem::later("credentials", detail));
    }
    identify(state, request, peer).map_err(|problem| reject(state, address, request, problem))
}

/// Counts a request of a principal, unless it makes too many. The rate of local users is not
/// limited.
fn take_request(state: &ApiState, peer: &Peer, principal: &Principal) -> Result<Permit, Problem> {
    let is_local = matches!(peer.origin, Origin::Local { .. });
    if !is_local && !state.rate_limiter.take(&principal.name, Instant::now()) {
        let most = state.api.requests_per_second;
        let told = format!("{} makes more than {most} requests a second", principal.name);
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate", told));
    }
    state.requests.take(&principal.name).ok_or_else(|| {
        let what = format!("{REQUESTS_PER_PRINCIPAL_MAX} requests under way");
        too_many("requests", principal, &what)
    })
}

/// The principal has the maximum of something.
fn too_many(rule: &'static str, principal: &Principal, what: &str) -> Problem {
    let detail = format!("{} has {what}: it has to finish some of them first", principal.name);
    Problem::new(StatusCode::TOO_MANY_REQUESTS, rule, detail)
}

fn count_refused(state: &ApiState, problem: Problem) -> Response {
    state.api.counters.answered(problem.status().as_u16());
    problem.into_response()
}

/// The status in counters and the audit log if a client hung up before its response. Its request
/// may have been carried out. No response has this status; other servers' logs use it alike.
const HUNG_UP: u16 = 499;

/// A request in progress. Dropping it writes the audit log, also if the client disconnected.
struct AuditedRequest {
    principal: Arc<Principal>,
    origin: Origin,
    method: Method,
    uri: Uri,
    notes: Arc<Mutex<AuditNotes>>,
    status: u16,
    counters: Arc<ApiCounters>,
}

impl Drop for AuditedRequest {
    fn drop(&mut self) {
        let Self { principal, origin: client, method, uri, notes, status, counters } = self;
        counters.answered(*status);
        if *status != 403 && matches!(*method, Method::GET | Method::HEAD) {
            return;
        }
        let (principal, path) = (&principal.name, uri.path());
        let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        let AuditNotes { changes, names, reason, revision } = &*notes;
        let names = changes.map(|_| names.as_str());
        tracing::info!(
            target: "api::audit", principal, %client, %method, path, status, revision, changes,
            names, reason = reason.as_deref(), "audit: request"
        );
    }
}

/// Logs a client without a valid credential, up to a limit. Beyond it, a client that guesses
/// credentials gets 429. Clients with a valid credential on the same network are not affected.
fn reject(state: &ApiState, client: IpAddr, request: &Request, problem: Problem) -> Problem {
    let (network, now) = (listen::client(client), Instant::now());
    if !state.failed_logins.is_stopped(network, now) {
        state.failed_logins.count(network, now);
        let (method, path) = (request.method(), request.uri().path());
        let message = "audit: unauthenticated request";
        tracing::warn!(target: "api::audit", %client, %method, path, "{message}");
    } else if request.headers().contains_key(AUTHORIZATION) || api_key(request).is_some() {
        let told = "too many invalid credentials from this client: try again later";
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "guessing", told);
    }
    problem
}

fn identify(state: &ApiState, request: &Request, peer: &Peer) -> Result<Arc<Principal>, Problem> {
    let (credentials, now) = (&state.api.credentials, now_seconds());
    if let Some(key) = api_key(request).filter(|_| state.api.powerdns) {
        let found = key.to_str().ok().map(|token| credentials.of_token(token.trim(), now));
        let found = found.unwrap_or(Err(CredentialError::Unknown));
        return found.map_err(|error| refuse_credential(error, "no principal has this X-API-Key"));
    }
    let headers = request.headers();
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let (found, what) = match (fields.next(), fields.next()) {
        (None, _) => {
            let names = peer.subjects.iter().map(String::as_str);
            let what = "the request has no token, and its connection no known certificate";
            (credentials.of_subjects(names, now), what)
        }
        (Some(field), None) => {
            let token = field.to_str().ok().and_then(bearer);
            let found = token.map(|token| credentials.of_token(token, now));
            let what = "no principal has this token: it was revoked or rotated, or is incomplete";
            (found.unwrap_or(Err(CredentialError::Unknown)), what)
        }
        (Some(_), Some(_)) => {
            (Err(CredentialError::Unknown), "the request has more than one `Authorization`")
        }
    };
    found.map_err(|error| refuse_credential(error, what))
}

/// The token of a client of `PowerDNS`.
fn api_key(request: &Request) -> Option<&HeaderValue> {
    let is_dialect = is_dialect(request.uri().path());
    request.headers().get("x-api-key").filter(|_| is_dialect)
}

fn refuse_credential(error: CredentialError, what: &str) -> Problem {
    match error {
        CredentialError::Unknown => Problem::unauthenticated(format!(
            "{what}; send `Authorization: Bearer TOKEN` (the commands of `dunlin` take the token \
             from --token-file or DUNLIN_TOKEN); `dunlin token create` makes one"
        )),
        CredentialError::Expired { principal, .. } => Problem::unauthenticated(format!(
            "the credential of {principal} has expired: `dunlin token rotate {principal}` makes a \
             new token, to be put where --token-file or DUNLIN_TOKEN say"
        )),
    }
}

/// The token in an `Authorization` field; the scheme is not case-sensitive (RFC 9110 §11.1).
fn bearer(field: &str) -> Option<&str> {
    let (scheme, token) = field.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_of_a_disconnected_client_is_counted() {
        let counters = Arc::new(ApiCounters::default());
        let principal = Principal::new("ci", vec!["read *".parse().expect("a grant")]);
        let audited = AuditedRequest {
            principal: Arc::new(principal.expect("a principal")),
            origin: Origin::Network(IpAddr::from([192, 0, 2, 1])),
            method: Method::PUT,
            uri: Uri::from_static("/v1/zones/example.org"),
            notes: Arc::default(),
            status: HUNG_UP,
            counters: Arc::clone(&counters),
        };
        drop(audited);
        assert_eq!(counters.status().requests["499"], 1);
    }

    #[test]
    fn a_token_stands_behind_its_scheme() {
        assert_eq!(bearer("bEARER  dunlin_1 "), Some("dunlin_1"));
        for other in ["dunlin_1", "Basic dunlin_1", "Bearer", ""] {
            assert_eq!(bearer(other), None, "{other}");
        }
    }
}
