//! The parts of the description (OpenAPI) that several handlers share.
use crate::problem::Problem;
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Header, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, Modify, OpenApi, ToSchema};

/// The pattern of an entity tag: a revision in quotes.
const TAG: &str = r#"^"[0-9]+"$"#;

/// The path of a zone.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct ZonePath {
    /// The zone's name, absolute, with or without the final dot.
    #[param(min_length = 1, max_length = 1020)]
    pub zone: String,
}

/// The path of a record set.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct SetPath {
    /// The zone's name, absolute, with or without the final dot.
    #[param(min_length = 1, max_length = 1020)]
    pub zone: String,
    /// The owner's name, absolute, with or without the final dot.
    #[param(min_length = 1, max_length = 1020)]
    pub name: String,
    /// The type, such as `AAAA`, or `TYPE65280` by its number.
    #[param(pattern = r"^[A-Za-z0-9-]+$")]
    pub r#type: String,
}

/// The condition of a read.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "the handlers read the header fields themselves")]
pub struct ReadCondition {
    /// The entity tag of a response that the client has: 304 if it is still the same.
    #[param(rename = "If-None-Match", nullable = false)]
    tag: Option<String>,
}

/// The condition of a write to something that exists.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "the handlers read the header fields themselves")]
pub struct MatchCondition {
    /// Write only if the entity tag is still this one; `*`: only if there is something.
    #[param(rename = "If-Match", nullable = false, pattern = r#"^\s*(\*|"[0-9]+")\s*$"#)]
    tag: Option<String>,
}

/// The condition of a write.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "the handlers read the header fields themselves")]
pub struct WriteCondition {
    /// Write only if the entity tag is still this one; `*`: only if there is something.
    #[param(rename = "If-Match", nullable = false, pattern = r#"^\s*(\*|"[0-9]+")\s*$"#)]
    present: Option<String>,
    /// `*`: write only if there is nothing.
    #[param(rename = "If-None-Match", nullable = false, pattern = r"^\s*\*\s*$")]
    absent: Option<String>,
}

/// The responses of a request that was not done.
pub struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let retry = header("Seconds to wait before the next try.", Type::Integer, None);
        let retry = Some(("Retry-After", retry));
        let scheme = header("The scheme of a credential.", Type::String, None);
        let all = [
            ("401", "No credential, or one that is not good.", Some(("WWW-Authenticate", scheme))),
            ("403", "No grant of the principal allows it.", None),
            ("429", "Too many requests: try again later.", retry.clone()),
            ("503", "Not possible now: try again later.", retry),
            ("4XX", "The request is refused; nothing changed, unless `written` says so.", None),
            ("5XX", "The server cannot do it now.", None),
        ];
        all.map(|(status, what, field)| (status.to_owned(), refusal(what, field).into())).into()
    }
}

fn refusal(what: &str, field: Option<(&str, Header)>) -> Response {
    let schema = RefOr::Ref(Ref::from_schema_name(Problem::name()));
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response =
        ResponseBuilder::new().description(what).content("application/problem+json", content);
    match field {
        Some((name, header)) => response.header(name, header).build(),
        None => response.build(),
    }
}

fn header(what: &str, kind: Type, pattern: Option<&str>) -> Header {
    let schema = ObjectBuilder::new().schema_type(kind).pattern(pattern).build();
    HeaderBuilder::new().description(Some(what)).schema(Some(schema)).build()
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Dunlin",
        description = "Zones and record sets, and operation of the server. Errors are \
                       `application/problem+json` with the field and the rule."
    ),
    components(schemas(Problem)),
    security(("token" = [])),
    modifiers(&Token),
    tags(
        (name = "zones", description = "Zones, their owners and their journals"),
        (name = "rrsets", description = "Record sets"),
        (name = "operate", description = "The server itself"),
    )
)]
pub struct Description;

struct Token;

impl Modify for Token {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
        let scheme = scheme.description(Some("A token of `dunlin token create`."));
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    }
}

/// Describes the entity tag of every response that has one.
pub fn describe_tags(openapi: &mut utoipa::openapi::OpenApi) {
    let tag = header("The revision of the last write.", Type::String, Some(TAG));
    for item in openapi.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.patch, &mut item.post];
        for operation in operations.into_iter().flatten() {
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(response) = response
                    && let Some(field) = response.headers.get_mut("ETag")
                {
                    *field = tag.clone().into();
                }
            }
        }
    }
}
