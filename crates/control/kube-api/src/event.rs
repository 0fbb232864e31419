//! Events: what a person sees under `kubectl describe`.
use crate::limits::EVENT_LETTERS_MAX;
use crate::{Api, ApiError};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Letters of the object's name in the name of an Event.
const NAME_LETTERS_MAX: usize = 200;

/// The object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Such as `apps/v1`.
    pub version: &'static str,
    /// Such as `Deployment`.
    pub kind: &'static str,
    /// The namespace, which the Event is in, too.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Distinguishes it from others with its name; empty: unknown.
    pub uid: String,
}

/// One Event, or several that are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub subject: Subject,
    /// Something that a person should look at.
    pub is_warning: bool,
    /// A word for programs, in camel case.
    pub reason: &'static str,
    /// A sentence for people; a long one is cut.
    pub text: String,
    /// The program that writes it.
    pub component: &'static str,
    /// The node of the program; empty: none.
    pub node: String,
    /// How often it happened, 1 or more.
    pub count: u32,
    /// When it happened first.
    pub first: Timestamp,
    /// When it happened last.
    pub last: Timestamp,
}

impl Event {
    /// The object of the API. No two of a component have the same name, unless they happened to the
    /// same object in the same nanosecond.
    fn object(&self) -> Value {
        let subject = &self.subject;
        // The API server cuts nothing, it refuses: a byte more than it takes is an error.
        let mut text: String = self.text.chars().take(EVENT_LETTERS_MAX).collect();
        while text.len() > EVENT_LETTERS_MAX {
            text.pop();
        }
        // A name has 253 letters at most, and a part of it ends with a letter or a digit.
        let name: String = subject.name.chars().take(NAME_LETTERS_MAX).collect();
        let name = name.trim_end_matches(['-', '.']);
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{name}.{:x}", self.last.as_nanosecond()),
                "namespace": subject.namespace,
            },
            "involvedObject": {
                "apiVersion": subject.version,
                "kind": subject.kind,
                "name": subject.name,
                "namespace": subject.namespace,
                "uid": subject.uid,
            },
            "type": if self.is_warning { "Warning" } else { "Normal" },
            "reason": self.reason,
            "message": text,
            "count": self.count,
            "source": {"component": self.component, "host": self.node},
            "firstTimestamp": seconds(self.first),
            "lastTimestamp": seconds(self.last),
        })
    }
}

impl Api {
    /// Creates an Event.
    ///
    /// # Errors
    /// The API server refuses it, or does not answer. A namespace that ends is one that is not
    /// there; the API server calls it forbidden.
    pub async fn write_event(&self, event: &Event) -> Result<(), ApiError> {
        let path = format!("/api/v1/namespaces/{}/events", event.subject.namespace);
        match self.post(&path, &event.object()).await {
            Err(ApiError::Forbidden(why)) if why.contains("being terminated") => {
                Err(ApiError::NotFound(why))
            }
            written => written.map(drop),
        }
    }
}

/// A time as Kubernetes writes it.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_a_letter_and_the_object_names_its_subject() {
        let namespace = "shop".to_owned();
        let (name, uid) = ("web-0".to_owned(), "u".to_owned());
        let now = Timestamp::from_second(1_000_000_000).expect("a time");
        let event = Event {
            subject: Subject { version: "v1", kind: "Pod", namespace, name, uid },
            is_warning: true,
            reason: "X",
            text: "ä".repeat(2_000),
            component: "c",
            node: "n".into(),
            count: 3,
            first: now,
            last: now,
        };
        let object = event.object();
        let text = object["message"].as_str().expect("text");
        assert_eq!((text.len(), text.chars().all(|letter| letter == 'ä')), (1_000, true));
        assert_eq!(object["involvedObject"]["namespace"], "shop");
        assert_eq!(object["metadata"]["name"], "web-0.de0b6b3a7640000");
        let name = format!("{}.-{}", "a".repeat(198), "b".repeat(53));
        let long = Event { subject: Subject { name, ..event.subject.clone() }, ..event };
        let name = long.object()["metadata"]["name"].as_str().expect("a name").to_owned();
        assert_eq!(name, format!("{}.de0b6b3a7640000", "a".repeat(198)));
        assert_eq!((&object["type"], &object["count"]), (&"Warning".into(), &3.into()));
        assert_eq!(object["firstTimestamp"], "2001-09-09T01:46:40Z");
    }
}
