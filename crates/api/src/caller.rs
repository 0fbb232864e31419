//! Who asks: by a bearer token (RFC 6750 §2.1), or the certificate of the connection. What came of
//! it is told by the audit log.
use crate::counts::Counts;
use crate::principal::{Principal, Verb};
use crate::problem::Problem;
use crate::routes::Desk;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::seats;
use hyper::header::AUTHORIZATION;
use hyper::{HeaderMap, Method, StatusCode, Uri};
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

    /// Refuses unless it may do this to all zones, whatever they hold.
    pub fn check_everything(&self, verb: Verb) -> Result<(), Problem> {
        self.judge(self.0.may_everything(verb), || format!("{} everything", verb.word()))
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
    let principal = match identify(&desk, request.headers(), &peer) {
        Ok(principal) => principal,
        Err(problem) => {
            let problem = turn_away(&desk, &peer, &request, problem);
            desk.api.counts.answered(problem.status().as_u16());
            return problem.into_response();
        }
    };
    if !desk.rates.take(&principal.name, Instant::now()) {
        let most = desk.api.requests_per_second;
        let told = format!("{} makes more than {most} requests a second", principal.name);
        desk.api.counts.answered(429);
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate", told).into_response();
    }
    request.extensions_mut().insert(Caller(Arc::clone(&principal)));
    let (client, counts) = (peer.client, Arc::clone(&desk.api.counts));
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let mut asked = Asked { principal, client, method, uri, status: HUNG_UP, counts };
    let response = next.run(request).await;
    asked.status = response.status().as_u16();
    response
}

/// What is counted and told where a client hung up before it was answered. What it asked for may
/// have been done all the same. No response has this status, and others' logs use it for the same.
const HUNG_UP: u16 = 499;

/// A request that is under way. The audit log is told what came of it, also of one whose client
/// hung up.
struct Asked {
    principal: Arc<Principal>,
    client: IpAddr,
    method: Method,
    uri: Uri,
    status: u16,
    counts: Arc<Counts>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Self { principal, client, method, uri, status, counts } = self;
        counts.answered(*status);
        if *status != 403 && matches!(*method, Method::GET | Method::HEAD) {
            return;
        }
        let (principal, path) = (&principal.name, uri.path());
        tracing::info!(
            target: "api::audit", principal, %client, %method, path, status, "audit: asked"
        );
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hangs_up_is_told_of_all_the_same() {
        let counts = Arc::new(Counts::default());
        let principal = Principal::new("ci", vec!["read *".parse().expect("a grant")]);
        let asked = Asked {
            principal: Arc::new(principal.expect("a principal")),
            client: IpAddr::from([192, 0, 2, 1]),
            method: Method::PUT,
            uri: Uri::from_static("/v1/zones/example.org"),
            status: HUNG_UP,
            counts: Arc::clone(&counts),
        };
        drop(asked);
        assert_eq!(counts.status().requests["499"], 1);
    }

    #[test]
    fn a_token_stands_behind_its_scheme() {
        assert_eq!(bearer("bEARER  dunlin_1 "), Some("dunlin_1"));
        for other in ["dunlin_1", "Basic dunlin_1", "Bearer", ""] {
            assert_eq!(bearer(other), None, "{other}");
        }
    }
}
