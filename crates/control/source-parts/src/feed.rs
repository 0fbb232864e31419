//! Where parts come from: the etcd of this site, and those of other sites.
use crate::limits::{BATCH_EVENTS_MAX, FOLLOWED_MIN};
use crate::part::PartKey;
use documents::MapEvent;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tokio::sync::mpsc;

/// The parts of the clusters of another site.
#[derive(Debug)]
pub struct SiteFeed {
    /// The name of the site.
    pub site: Box<str>,
    /// Receives what its clusters write, as those of this site.
    pub events: mpsc::Receiver<MapEvent>,
}

/// The number of a feed: 0 is this site.
pub type Feed = usize;

/// The events of all feeds. Each is passed on by a task of the runtime.
pub fn gather(
    own: mpsc::Receiver<MapEvent>,
    sites: Vec<SiteFeed>,
) -> mpsc::Receiver<(Feed, MapEvent)> {
    let (sender, receiver) = mpsc::channel(BATCH_EVENTS_MAX);
    let of_sites = sites.into_iter().map(|site| site.events);
    for (feed, mut events) in std::iter::once(own).chain(of_sites).enumerate() {
        let sender = sender.clone();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if sender.send((feed, event)).await.is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

/// The outcome of a part of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is of the feed that has the cluster.
    Own,
    /// A feed before it has a cluster of this name.
    Refused,
    /// A feed after it had a cluster of this name, whose parts go.
    Replaced,
}

#[derive(Debug, Default)]
struct FeedState {
    site: Box<str>,
    /// Parts that a list has not named yet; `None`: there is no list now.
    missing: Option<BTreeSet<PartKey>>,
    is_listed: bool,
    /// Since when it is followed without a break.
    followed: Option<Instant>,
    /// Why it is not followed.
    error: Option<String>,
    /// Clusters whose name another feed has.
    refused: BTreeSet<Box<str>>,
}

/// All feeds, and the clusters of each. A cluster is of one feed: of two with one name, the one of
/// this site, or of the site that the config names first.
#[derive(Debug)]
pub struct Feeds {
    feeds: Vec<FeedState>,
    owners: BTreeMap<Box<str>, Feed>,
}

impl Feeds {
    /// The feeds of this site and of these sites.
    pub fn new(sites: &[SiteFeed]) -> Self {
        let of_site = |site: &SiteFeed| FeedState { site: site.site.clone(), ..Default::default() };
        let own = std::iter::once(FeedState::default());
        Self { feeds: own.chain(sites.iter().map(of_site)).collect(), owners: BTreeMap::new() }
    }

    /// The feed of a site; empty: this one.
    pub fn of_site(&self, site: &str) -> Option<Feed> {
        self.feeds.iter().position(|feed| *feed.site == *site)
    }

    /// The site of a cluster; empty: this one.
    pub fn site_of(&self, cluster: &str) -> &str {
        self.owners.get(cluster).map_or("", |feed| &self.feeds[*feed].site)
    }

    /// Whether a cluster is of this feed.
    pub fn has(&self, feed: Feed, cluster: &str) -> bool {
        self.owners.get(cluster) == Some(&feed)
    }

    /// A feed has a part of a cluster.
    pub fn take(&mut self, feed: Feed, cluster: &str) -> Taken {
        match self.owners.get(cluster).copied() {
            Some(owner) if owner == feed => Taken::Own,
            Some(owner) if owner < feed => {
                let is_new = self.feeds[feed].refused.insert(cluster.into());
                if is_new {
                    tracing::error!("{}", self.refusal(feed, cluster));
                }
                Taken::Refused
            }
            owner => {
                self.owners.insert(cluster.into(), feed);
                if owner.is_some() { Taken::Replaced } else { Taken::Own }
            }
        }
    }

    /// A list begins; these parts are known.
    pub fn begin<'k>(&mut self, feed: Feed, known: impl Iterator<Item = &'k PartKey>) {
        let missing = known.filter(|key| self.has(feed, &key.cluster)).cloned().collect();
        self.feeds[feed].missing = Some(missing);
        self.feeds[feed].refused.clear();
    }

    /// A feed has named a part.
    pub fn see(&mut self, feed: Feed, key: &PartKey) {
        if let Some(missing) = &mut self.feeds[feed].missing {
            missing.remove(key);
        }
    }

    /// A list has ended; what it has not named.
    pub fn end(&mut self, feed: Feed) -> BTreeSet<PartKey> {
        self.feeds[feed].is_listed = true;
        self.feeds[feed].followed.get_or_insert_with(Instant::now);
        let missing = self.feeds[feed].missing.take().unwrap_or_default();
        // Meanwhile another feed may have given parts of the same names.
        missing.into_iter().filter(|key| self.has(feed, &key.cluster)).collect()
    }

    /// Why a feed is not followed; `None`: it is.
    pub fn report(&mut self, feed: Feed, error: Option<String>) {
        let state = &mut self.feeds[feed];
        let since = state.followed.or_else(|| state.is_listed.then(Instant::now));
        state.followed = since.filter(|_| error.is_none());
        state.error = error;
    }

    /// Whether a cluster is followed for so long that an old heartbeat is the writer's own.
    pub fn is_followed(&self, cluster: &str) -> bool {
        let since = self.owners.get(cluster).and_then(|feed| self.feeds[*feed].followed);
        since.is_some_and(|since| since.elapsed() >= FOLLOWED_MIN)
    }

    /// Whether this site was listed, and each other one was listed or cannot be.
    pub fn are_known(&self) -> bool {
        let mut others = self.feeds.iter().skip(1);
        self.is_synced() && others.all(|feed| feed.is_listed || feed.error.is_some())
    }

    /// Whether this site was listed.
    pub fn is_synced(&self) -> bool {
        self.feeds[0].is_listed
    }

    /// Whether no list of this site is in progress. What a list of another one may lack stays.
    pub fn is_complete(&self) -> bool {
        self.feeds[0].missing.is_none()
    }

    /// Why parts are not followed; `None`: they are.
    pub fn error(&self) -> Option<String> {
        let faulty = self.feeds.iter().find_map(|feed| Some((&feed.site, feed.error.as_ref()?)));
        faulty.map(|(site, why)| match &**site {
            "" => why.clone(),
            site => format!("those of the site {site}: {why}"),
        })
    }

    fn refusal(&self, feed: Feed, cluster: &str) -> String {
        let site = &self.feeds[feed].site;
        let other = match self.site_of(cluster) {
            "" => "this site".to_owned(),
            other => format!("the site {other}"),
        };
        format!(
            "the cluster {cluster} of the site {site} is left out: {other} has one of this name, \
             and each needs a name of its own"
        )
    }

    /// Clusters that are left out, and why.
    pub fn refused(&self) -> Vec<String> {
        let feeds = self.feeds.iter().enumerate();
        let of_feed = |(feed, state): (Feed, &FeedState)| {
            state.refused.iter().map(|cluster| self.refusal(feed, cluster)).collect::<Vec<_>>()
        };
        feeds.flat_map(of_feed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cluster: &str, name: &str) -> PartKey {
        let key = format!("{cluster}/objects/parts/services/shop/{name}");
        PartKey::read(&key).expect("a key")
    }

    fn feeds(sites: &[&str]) -> Feeds {
        let feed = |site: &&str| SiteFeed { site: (*site).into(), events: mpsc::channel(1).1 };
        Feeds::new(&sites.iter().map(feed).collect::<Vec<_>>())
    }

    #[test]
    fn list_of_a_site_says_nothing_of_the_clusters_of_another() {
        let mut feeds = feeds(&["ams1"]);
        let known = [key("fra1-a", "web"), key("ams1-a", "web"), key("ams1-a", "db")];
        for (feed, key) in [0, 1, 1].into_iter().zip(&known) {
            assert_eq!(feeds.take(feed, &key.cluster), Taken::Own);
        }
        feeds.begin(1, known.iter());
        feeds.see(1, &known[1]);
        assert_eq!(feeds.end(1), BTreeSet::from([known[2].clone()]));
        assert!(!feeds.is_synced() && !feeds.are_known());
    }

    #[test]
    fn cluster_of_this_site_comes_before_one_of_the_same_name() {
        let mut feeds = feeds(&["ams1"]);
        assert_eq!(feeds.take(1, "a"), Taken::Own);
        assert_eq!(feeds.site_of("a"), "ams1");
        assert_eq!(feeds.take(0, "a"), Taken::Replaced);
        assert_eq!(feeds.take(1, "a"), Taken::Refused);
        let refused = feeds.refused();
        assert!(refused[0].contains("the cluster a of the site ams1 is left out"), "{refused:?}");
    }

    #[test]
    fn site_that_is_away_is_not_waited_for() {
        let mut feeds = feeds(&["ams1"]);
        feeds.end(0);
        assert!(!feeds.are_known());
        feeds.report(1, Some("refused".into()));
        assert!(feeds.are_known());
        assert_eq!(feeds.error().as_deref(), Some("those of the site ams1: refused"));
        feeds.report(1, None);
        assert!(!feeds.are_known());
        feeds.end(1);
        assert!(feeds.are_known());
    }
}
