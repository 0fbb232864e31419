//! The view that a request is about.
use crate::problem::Problem;
use crate::receipt::Wait;
use model::{BrokenRule, ValueBody, read_view};
use records::{SetKey, View};
use serde::Deserialize;
use utoipa::IntoParams;

/// The view of a record set.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ViewQuery {
    /// The view. Default: that of all clients.
    pub view: Option<String>,
}

/// Query parameters of a write of one record set.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SetQuery {
    /// The view. Default: that of all clients.
    pub view: Option<String>,
    /// `live`: respond once every worker serves the write. `fleet`: once every server of the
    /// fleet does. Default: once it is on the disk.
    #[param(inline)]
    pub wait: Option<Wait>,
    /// The reason of the write, for the journal and the audit log.
    #[param(max_length = 255)]
    pub reason: Option<String>,
}

/// The view of a name; that of all clients without one.
pub fn view_or_all(text: Option<&str>, field: &str) -> Result<View, Problem> {
    Ok(text.map_or(Ok(View::DEFAULT), |text| read_view(text, field))?)
}

/// Refuses a set whose content names another view than the request does.
pub fn check_view(view: View, value: &ValueBody, place: &str) -> Result<(), Problem> {
    let field = format!("{place}view");
    match read_view(&value.view, &field)? {
        View::DEFAULT => Ok(()),
        of_body if of_body == view => Ok(()),
        of_body => {
            let what = format!("is {of_body}, but the request is about the view {view}");
            Err(Problem::invalid(field, BrokenRule::SET_RULES, what))
        }
    }
}

/// There is no such set.
pub fn missing(SetKey { name, rtype, view, .. }: &SetKey) -> Problem {
    Problem::missing(match *view {
        View::DEFAULT => format!("{name} has no record set {rtype}"),
        view => format!("{name} has no record set {rtype} in the view {view}"),
    })
}
