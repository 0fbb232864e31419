//! Who asks: by a bearer token (RFC 6750 §2.1), or the certificate of the connection. What came of
//! it is told by the audit log.
use crate::principal::{Principal, Verb};
use crate::problem::Problem;
use crate::routes::Desk;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::seats;
use hyper::header::AUTHORIZATION;
use hyper::{HeaderMap, Method, StatusCode};
use records::SetKey;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use wire::Name;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address; IPv4 ones come as such, never mapped into IPv6.
    pub client: IpAddr,
    /// The names of its certificate, which is verified.
    pub subjects: Arc<[String]>,
}

/// Whoever asks, and may ask at all.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Principal>);

impl Caller {
    /// Its name.
    pub fn name(&self) -> Arc<str> {
        self.0.name.as_str().into()
    }

    /// Whether it may do this to something in a zone.
    pub fn may_in(&self, verb: Verb, zone: Name<'_>) -> bool {
        self.0.may_in(verb, zone)
    }

    /// Whether it may do this to a set.
    pub fn may(&self, verb: Verb, key: &SetKey) -> bool {
        self.0.may(verb, key.zone.as_name(), key.name.as_name(), key.rtype)
    }

    /// Refuses unless it may do this to something in a zone. Whether the zone is there is not told
    /// to who may not.
    pub fn check_in(&self, verb: Verb, zone: Name<'_>) -> Result<(), Problem> {
        self.judge(self.may_in(verb, zone), || format!("{} in the zone {zone}", verb.word()))
    }

    /// Refuses unless it may do this to a zone as a whole.
    pub fn check_all_of(&self, verb: Verb, zone: Name<'_>) -> Result<(), Problem> {
        let may = self.0.may_all_of(verb, zone);
        self.judge(may, || format!("use `{}` on the zone {zone}", verb.word()))
    }

    /// Refuses unless it may do this to a set.
    pub fn check(&self, verb: Verb, key: &SetKey) -> Result<(), Problem> {
        self.judge(self.may(verb, key), || {
            format!("{} {} {} in the zone {}", verb.word(), key.name, key.rtype, key.zone)
        })
    }

    /// Refuses unless it may look at the server itself and tell it something.
    pub fn check_operate(&self) -> Result<(), Problem> {
        self.judge(self.0.may_operate(), || Verb::Operate.word().to_owned())
    }

    fn judge(&self, may: bool, what: impl FnOnce() -> String) -> Result<(), Problem> {
        if may { Ok(()) } else { Err(Problem::forbidden(&self.0.name, &what())) }
    }
}

/// Lets in who has a credential, and tells the audit log what came of it: of every request that
/// may change something, and of every one that was refused.
pub async fn admit(State(desk): State<Desk>, mut request: Request, next: Next) -> Response {
    let Some(peer) = request.extensions().get::<Peer>().cloned() else {
        return Problem::unauthenticated("nobody knows who is asking").into_response();
    };
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let principal = match identify(&desk, request.headers(), &peer) {
        Ok(principal) => principal,
        Err(problem) => return turn_away(&desk, &peer, &request, problem).into_response(),
    };
    request.extensions_mut().insert(Caller(Arc::clone(&principal)));
    let response = next.run(request).await;
    let status = response.status();
    let is_refused = status == StatusCode::FORBIDDEN;
    if is_refused || !matches!(method, Method::GET | Method::HEAD) {
        let (principal, client) = (&principal.name, peer.client);
        let status = status.as_u16();
        tracing::info!(
            target: "api::audit", principal, %client, %method, path, status, "audit: asked"
        );
    }
    response
}

/// Tells who is nobody known that he is, and the log as long as it is not too often. Who guesses is
/// told to come later; who is known is never held up by who guesses from the same network.
fn turn_away(desk: &Desk, peer: &Peer, request: &Request, problem: Problem) -> Problem {
    let (network, now) = (seats::client(peer.client), Instant::now());
    if !desk.failures.is_stopped(network, now) {
        desk.failures.count(network, now);
        let (client, method, path) = (peer.client, request.method(), request.uri().path());
        tracing::warn!(target: "api::audit", %client, %method, path, "audit: nobody known asked");
    } else if request.headers().contains_key(AUTHORIZATION) {
        let told = "too many credentials that are no good came from there: come later";
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "guessing", told);
    }
    problem
}

fn identify(desk: &Desk, headers: &HeaderMap, peer: &Peer) -> Result<Arc<Principal>, Problem> {
    let credentials = &desk.api.credentials;
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let found = match (fields.next(), fields.next()) {
        (None, _) => credentials.of_subjects(peer.subjects.iter().map(String::as_str)),
        (Some(field), None) => {
            let token = field.to_str().ok().and_then(bearer);
            token.and_then(|token| credentials.of_token(token))
        }
        (Some(_), Some(_)) => None,
    };
    found.ok_or_else(|| {
        Problem::unauthenticated(
            "send `Authorization: Bearer TOKEN` with a token of `dunlin token create`, or come \
             with a certificate that a principal has",
        )
    })
}

/// The token of an `Authorization` field; the scheme's case does not matter (RFC 9110 §11.1).
fn bearer(field: &str) -> Option<&str> {
    let (scheme, token) = field.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
