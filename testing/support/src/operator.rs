//! An operator of etcd, who knows nothing of Dunlin.
use crate::etcd::Etcd;
use crate::wait;
use etcd_client::{
    AlarmAction, AlarmOptions, AlarmType, Certificate, Client, CompactionOptions, ConnectOptions,
    DeleteOptions, Error, EventType, GetOptions, KeyValue, Permission, PutOptions, TlsOptions,
    WatchOptions,
};
use std::collections::BTreeMap;
use tokio::runtime::{Builder, Runtime};

/// Whether a member cannot do it now.
fn is_unavailable(why: &Error) -> bool {
    /// The code of gRPC.
    const UNAVAILABLE: i32 = 14;
    matches!(why, Error::GRpcStatus(status) if status.code() as i32 == UNAVAILABLE)
}

/// A client of etcd. Its methods panic if etcd does not answer as it should.
pub struct Operator {
    runtime: Runtime,
    endpoints: Vec<String>,
    /// The login of `root`, and the CA of members that speak TLS.
    options: ConnectOptions,
}

impl Operator {
    /// A client of all members.
    ///
    /// # Panics
    /// The process has no resources for it.
    pub fn of(etcd: &Etcd) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let options = ConnectOptions::new().with_timeout(wait::deadline());
        Self { runtime, endpoints: etcd.endpoints(), options }
    }

    /// The same over TLS; the certificates of the members are of this CA, in PEM.
    ///
    /// # Panics
    /// As [`Operator::of`].
    pub fn over_tls(etcd: &Etcd, ca: &str) -> Self {
        let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
        let plain = Self::of(etcd);
        Self { options: plain.options.with_tls(tls), ..plain }
    }

    /// Does something at one of these members, with a new connection: members are killed, and
    /// logins expire.
    fn at<T>(&self, endpoints: &[String], act: impl AsyncFn(&mut Client) -> Result<T, Error>) -> T {
        let what = format!("etcd at {endpoints:?}");
        let done = wait::until_ok(&what, || {
            let done = self.runtime.block_on(async {
                let mut client = Client::connect(endpoints, Some(self.options.clone())).await?;
                act(&mut client).await
            });
            match done {
                // The members elect a leader, or one of them does not run.
                Err(why) if is_unavailable(&why) => Err(why),
                done => Ok(done),
            }
        });
        done.unwrap_or_else(|why| panic!("{what}: {why}"))
    }

    fn run<T>(&self, act: impl AsyncFn(&mut Client) -> Result<T, Error>) -> T {
        self.at(&self.endpoints, act)
    }

    /// Demands a login from now on. The user may read and write the keys with this prefix.
    pub fn guard(&mut self, user: &str, password: &str, prefix: &str) {
        self.run(async |client| {
            for user in ["root", user] {
                client.role_add(user).await?;
                client.user_add(user, password, None).await?;
                client.user_grant_role(user, user).await?;
            }
            let keys = Permission::read_write(prefix).with_prefix();
            client.role_grant_permission(user, keys).await?;
            client.auth_enable().await
        });
        self.options = self.options.clone().with_user("root", password);
    }

    /// Gives a user another password; its logins end.
    pub fn change_password(&self, user: &str, password: &str) {
        self.run(async |client| client.user_change_password(user, password).await);
    }

    /// The value of a key, which is text.
    pub fn get(&self, key: &str) -> Option<String> {
        let got = self.run(async |client| client.get(key, None).await);
        got.kvs().first().map(|kv| kv.value_str().expect("text").to_owned())
    }

    /// The revisions of etcd at which a key was written last, and created. There must be such a
    /// key.
    pub fn revisions_of(&self, key: &str) -> (i64, i64) {
        let got = self.run(async |client| client.get(key, None).await);
        let kv = got.kvs().first().expect("a key");
        (kv.mod_revision(), kv.create_revision())
    }

    /// Writes a key.
    pub fn put(&self, key: &str, value: impl AsRef<[u8]>) {
        self.run(async |client| client.put(key, value.as_ref(), None).await);
    }

    /// Writes a key under a lease of this many seconds.
    pub fn put_for(&self, key: &str, value: &str, seconds: i64) {
        self.run(async |client| {
            let lease = client.lease_grant(seconds, None).await?.id();
            client.put(key, value, Some(PutOptions::new().with_lease(lease))).await
        });
    }

    /// The seconds that a key was given by its lease, and those that are left.
    pub fn lease_of(&self, key: &str) -> Option<(i64, i64)> {
        self.run(async |client| {
            let got = client.get(key, None).await?;
            let Some(lease) = got.kvs().first().map(|kv| kv.lease()) else { return Ok(None) };
            let found = client.lease_time_to_live(lease, None).await?;
            Ok(Some((found.granted_ttl(), found.ttl())))
        })
    }

    /// Deletes all keys with a prefix.
    pub fn delete(&self, prefix: &str) {
        let options = DeleteOptions::new().with_prefix();
        self.run(async |client| client.delete(prefix, Some(options.clone())).await);
    }

    /// The keys with a prefix, without it, with their values, which are text, and the revision of
    /// etcd at which one of them was written last.
    pub fn list(&self, prefix: &str) -> (BTreeMap<String, String>, i64) {
        let options = GetOptions::new().with_prefix();
        let got = self.run(async |client| client.get(prefix, Some(options.clone())).await);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let of = |kv: &KeyValue| (text(&kv.key()[prefix.len()..]), text(kv.value()));
        let newest = got.kvs().iter().map(KeyValue::mod_revision).max().unwrap_or_default();
        (got.kvs().iter().map(of).collect(), newest)
    }

    /// Sees the changes of keys with a prefix as they are committed, by key and value (`None`:
    /// deleted), until `each` returns `false`.
    ///
    /// # Panics
    /// The watch ends.
    pub fn watch(&self, prefix: &str, mut each: impl FnMut(&str, Option<&[u8]>) -> bool) {
        let watching = async {
            let options = Some(self.options.clone());
            let mut client = Client::connect(&self.endpoints, options).await?;
            let mut changes = client.watch(prefix, Some(WatchOptions::new().with_prefix())).await?;
            while let Some(message) = changes.message().await? {
                for event in message.events() {
                    let is_put = event.event_type() == EventType::Put;
                    let Some(kv) = event.kv() else { continue };
                    if !each(&String::from_utf8_lossy(kv.key()), is_put.then(|| kv.value())) {
                        return Ok(());
                    }
                }
            }
            Ok::<_, Error>(())
        };
        self.runtime.block_on(watching).expect("etcd reports changes");
    }

    /// How many keys have a prefix.
    pub fn count(&self, prefix: &str) -> i64 {
        let options = GetOptions::new().with_prefix().with_count_only();
        self.run(async |client| client.get(prefix, Some(options.clone())).await).count()
    }

    /// Puts keys with values of this many bytes until etcd has no space.
    pub fn fill(&self, prefix: &str, len: usize) {
        self.run(async |client| {
            for n in 0.. {
                match client.put(format!("{prefix}{n}"), vec![b'x'; len], None).await {
                    Ok(_) => (),
                    Err(why) if is_unavailable(&why) => return Err(why),
                    Err(_) => break,
                }
            }
            Ok(())
        });
    }

    /// Compacts and defragments all members, and clears their alarms.
    pub fn make_room(&self) {
        self.compact();
        self.defragment();
        self.run(async |client| {
            for alarm in client.alarm(AlarmAction::Get, AlarmType::None, None).await?.alarms() {
                let mut of = AlarmOptions::new();
                of.with_member(alarm.member_id());
                client.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(of)).await?;
            }
            Ok(())
        });
    }

    /// Drops all history.
    pub fn compact(&self) {
        self.run(async |client| {
            let got = client.get("x", None).await?;
            let revision = got.header().expect("a header").revision();
            client.compact(revision, Some(CompactionOptions::new().with_physical())).await
        });
    }

    /// Defragments all members, one after another; each answers nothing else meanwhile.
    pub fn defragment(&self) {
        for member in &self.endpoints {
            self.at(std::slice::from_ref(member), async |client| client.defragment().await);
        }
    }

    /// The number of the member that leads.
    ///
    /// # Panics
    /// None of them leads.
    pub fn leader(&self) -> usize {
        let leads = |member: &String| {
            let status =
                self.at(std::slice::from_ref(member), async |client| client.status().await);
            status.header().expect("a header").member_id() == status.leader()
        };
        self.endpoints.iter().position(leads).expect("a leader")
    }
}
