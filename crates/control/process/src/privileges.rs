//! The user of the process once its sockets are open, and the capabilities that it keeps.
use crate::limits::USER_ENTRY_LEN_MAX;
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread;

/// Privileges could not be dropped; the server must not continue with them.
#[derive(Debug)]
pub enum PrivilegeError {
    /// `[server] user` names no user.
    NoUser(String),
    /// `[server] group` names no group.
    NoGroup(String),
    /// A group without a user.
    GroupAlone,
    /// A numeric user without an entry that names its group.
    UserWithoutGroup(u32),
    /// The number that means "unchanged" in system calls (setresuid(2)).
    NoNumber(u32),
    /// Capabilities belong to threads: other threads would keep theirs.
    Threads(usize),
    /// The kernel or the user database refused a step.
    Refused(&'static str, io::Error),
    /// Every step succeeded, and the process can still become root.
    Regained,
}

impl fmt::Display for PrivilegeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUser(user) => write!(
                f,
                "[server] user: there is no user \"{user}\"; create one by `systemd-sysusers` \
                 with the line `u {user} -` in /usr/lib/sysusers.d/{user}.conf, or by `useradd \
                 --system {user}`, or name one of `getent passwd`"
            ),
            Self::NoGroup(group) => write!(
                f,
                "[server] group: there is no group \"{group}\"; create it by `groupadd --system \
                 {group}`, or name one of `getent group`"
            ),
            Self::GroupAlone => {
                write!(f, "[server] group needs [server] user; name the user too")
            }
            Self::UserWithoutGroup(user) => write!(
                f,
                "[server] user: the user database has no group for {user}; name it in \
                [server] group"
            ),
            Self::NoNumber(number) => {
                write!(f, "[server] user and group: {number} is not a valid number; name another")
            }
            Self::Threads(count) => {
                write!(f, "privileges can be dropped by one thread only, and there are {count}")
            }
            Self::Refused(step, error) => {
                write!(f, "cannot {step}: {error}")?;
                if Errno::from_io_error(error) == Some(Errno::PERM) {
                    write!(
                        f,
                        "; this needs CAP_SETUID and CAP_SETGID: grant them, or start dunlin as \
                         that user and leave [server] user empty"
                    )?;
                }
                Ok(())
            }
            Self::Regained => write!(f, "the process can still become root after the drop"),
        }
    }
}

impl std::error::Error for PrivilegeError {}

/// Changes the process to `user` and `group` (names or numbers; an empty user changes nothing, an
/// empty group is the user's) and keeps only the capabilities in `keep`. Sets `no_new_privs`, so
/// that no program it runs gains any.
///
/// Call it after sockets are bound and before threads start: a thread inherits capabilities and
/// `no_new_privs` from the thread that starts it. The user must be able to read the files that are
/// opened later (zones, the data folder, the config).
///
/// # Errors
/// The user or group is unknown, the kernel refuses, or other threads exist.
pub fn drop_to(user: &str, group: &str, keep: CapabilitySet) -> Result<(), PrivilegeError> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(PrivilegeError::Threads(threads));
    }
    if user.is_empty() && !group.is_empty() {
        return Err(PrivilegeError::GroupAlone);
    }
    if !rustix::process::geteuid().is_root() {
        if !user.is_empty() {
            tracing::debug!(user, "[server] user is ignored: dunlin was not started as root");
        }
        return restrict(keep);
    }
    if user.is_empty() {
        tracing::warn!(
            "running as root: set [server] user, for example to \"dunlin\"; dunlin changes to \
            that user once its sockets are open"
        );
        return Ok(());
    }
    let identity = Identity::find(user, group)?;
    drop_bounding(keep)?;
    rustix::thread::set_keep_capabilities(true).map_err(refused("keep capabilities"))?;
    identity.assume()?;
    rustix::thread::set_keep_capabilities(false).map_err(refused("keep capabilities no more"))?;
    restrict(keep)?;
    if identity.uid != 0 && !keep.contains(CapabilitySet::SETUID) && may_be_root() {
        return Err(PrivilegeError::Regained);
    }
    tracing::info!(user, uid = identity.uid, gid = identity.gid, "privileges dropped");
    Ok(())
}

/// Keeps only these capabilities, for good, as any user. With `hands_down` the programs that this
/// process starts have them, too; they gain no others.
///
/// # Errors
/// The kernel refuses.
pub fn keep_only(keep: CapabilitySet, hands_down: bool) -> Result<(), PrivilegeError> {
    drop_bounding(keep)?;
    restrict(keep)?;
    let has = rustix::thread::capabilities(None).map_err(refused("read capabilities"))?;
    if !hands_down || has.permitted.is_empty() {
        return Ok(());
    }
    let sets = CapabilitySets { inheritable: has.permitted, ..has };
    rustix::thread::set_capabilities(None, sets).map_err(refused("hand down capabilities"))?;
    for one in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        if has.permitted.contains(one) {
            rustix::thread::configure_capability_in_ambient_set(one, true)
                .map_err(refused("hand down capabilities"))?;
        }
    }
    Ok(())
}

/// Ignores the signals that end or interrupt a server: for processes that end with it, and not
/// before. Programs that this process starts ignore them, too.
pub fn ignore_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1] {
        // SAFETY: takes numbers only, and no handler runs.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

fn refused<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> PrivilegeError {
    move |error| PrivilegeError::Refused(step, error.into())
}

/// Reduces this thread's capabilities to those in `keep`.
fn restrict(keep: CapabilitySet) -> Result<(), PrivilegeError> {
    let has = rustix::thread::capabilities(None).map_err(refused("read capabilities"))?;
    let left = has.permitted & keep;
    let none = CapabilitySet::empty();
    // Ambient capabilities follow the permitted and inheritable ones (capabilities(7)).
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: none };
    rustix::thread::set_capabilities(None, sets).map_err(refused("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(refused("set no_new_privs"))
}

/// Removes everything outside of `keep` from the bounding set. Some containers do not allow that;
/// `no_new_privs` is enough there.
fn drop_bounding(keep: CapabilitySet) -> Result<(), PrivilegeError> {
    let has = rustix::thread::capabilities(None).map_err(refused("read capabilities"))?;
    if !has.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    // The first unknown number ends the list of capabilities.
    for one in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        let Ok(bounding) = rustix::thread::capability_is_in_bounding_set(one) else { break };
        if bounding && !keep.contains(one) {
            rustix::thread::remove_capability_from_bounding_set(one)
                .map_err(refused("drop capabilities"))?;
        }
    }
    Ok(())
}

/// A user and its group.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    /// `None`: the user database has no entry for the number, and no other groups of this user.
    name: Option<CString>,
    /// The number of the user.
    pub uid: libc::uid_t,
    /// The number of its group.
    pub gid: libc::gid_t,
}

impl Identity {
    /// The identity after the drop; `None`: the process keeps its own.
    ///
    /// # Errors
    /// The user or group is unknown.
    pub fn of_config(user: &str, group: &str) -> Result<Option<Self>, PrivilegeError> {
        let becomes = rustix::process::geteuid().is_root() && !user.is_empty();
        becomes.then(|| Self::find(user, group)).transpose()
    }

    /// Checks that the user and the group exist.
    ///
    /// # Errors
    /// The user or group is unknown, or a group has no user.
    pub fn check(user: &str, group: &str) -> Result<(), PrivilegeError> {
        match (user.is_empty(), group.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(PrivilegeError::GroupAlone),
            _ => Self::find(user, group).map(drop),
        }
    }

    /// The identity of a user and a group; an empty group is that of the user.
    ///
    /// # Errors
    /// The user or group is unknown.
    pub fn find(user: &str, group: &str) -> Result<Self, PrivilegeError> {
        let unknown = || PrivilegeError::NoUser(user.to_owned());
        let (name, uid, own) = match user.parse() {
            Ok(uid) => match find_user_by_number(uid).map_err(refused("look up the user"))? {
                Some((name, uid, gid)) => (Some(name), uid, Some(gid)),
                None => (None, uid, None),
            },
            Err(_) => {
                let text = CString::new(user).map_err(|_| unknown())?;
                let found = find_user(&text).map_err(refused("look up the user"))?;
                let (name, uid, gid) = found.ok_or_else(unknown)?;
                (Some(name), uid, Some(gid))
            }
        };
        let gid = match (group.parse(), own) {
            (Ok(gid), _) => gid,
            (Err(_), Some(gid)) if group.is_empty() => gid,
            (Err(_), None) if group.is_empty() => {
                return Err(PrivilegeError::UserWithoutGroup(uid));
            }
            (Err(_), _) => {
                let unknown = || PrivilegeError::NoGroup(group.to_owned());
                let text = CString::new(group).map_err(|_| unknown())?;
                let found = find_group(&text).map_err(refused("look up the group"))?;
                found.ok_or_else(unknown)?
            }
        };
        match u32::MAX {
            invalid if uid == invalid || gid == invalid => Err(PrivilegeError::NoNumber(invalid)),
            _ => Ok(Self { name, uid, gid }),
        }
    }

    /// Runs `work` in a thread that has this identity, and none of the privileges of this one;
    /// `None`: the kernel does not allow that.
    pub fn run_as<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Option<T> {
        let assume = || {
            let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
            set_thread_groups(&self.groups())?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)
        };
        let run = || assume().is_ok().then(work);
        thread::scope(|scope| scope.spawn(run).join().ok().flatten())
    }

    /// All groups of the user.
    fn groups(&self) -> Vec<Gid> {
        let Some(name) = &self.name else { return Vec::new() };
        let mut groups: Vec<libc::gid_t> = vec![0; 64];
        loop {
            let mut count = groups.len() as c_int;
            // SAFETY: the name is a C string, and the list has room for `count` groups.
            let result = unsafe {
                libc::getgrouplist(name.as_ptr(), self.gid, groups.as_mut_ptr(), &raw mut count)
            };
            let count = usize::try_from(count).unwrap_or_default();
            if result >= 0 || count <= groups.len() {
                groups.truncate(count);
                return groups.into_iter().map(Gid::from_raw).collect();
            }
            groups.resize(count, 0);
        }
    }

    /// Changes to this identity; groups first, because that needs the privilege of the old user.
    fn assume(&self) -> Result<(), PrivilegeError> {
        let Self { name, uid, gid } = self;
        let groups = match name {
            // SAFETY: the name is a C string that lives through the call.
            Some(name) => unsafe { libc::initgroups(name.as_ptr(), *gid) },
            // SAFETY: an empty list is not read.
            None => unsafe { libc::setgroups(0, ptr::null()) },
        };
        done(groups, "give up root's groups")?;
        // SAFETY: takes numbers only. The C library applies it to all threads.
        done(unsafe { libc::setresgid(*gid, *gid, *gid) }, "take the group")?;
        // SAFETY: as above.
        done(unsafe { libc::setresuid(*uid, *uid, *uid) }, "take the user")
    }
}

fn done(result: c_int, step: &'static str) -> Result<(), PrivilegeError> {
    if result == 0 { Ok(()) } else { Err(refused(step)(io::Error::last_os_error())) }
}

fn may_be_root() -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::setresuid(0, 0, 0) == 0 }
}

type User = (CString, libc::uid_t, libc::gid_t);

fn read_user(entry: &libc::passwd) -> User {
    // SAFETY: the entry was found, so its name is a C string in the buffer that `find` holds.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    (name.to_owned(), entry.pw_uid, entry.pw_gid)
}

fn find_user(name: &CStr) -> io::Result<Option<User>> {
    let ask = |entry, buffer: &mut [c_char], found| {
        // SAFETY: as `find` promises; the name is a C string.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    };
    find(ask, read_user)
}

fn find_user_by_number(uid: libc::uid_t) -> io::Result<Option<User>> {
    let ask = |entry, buffer: &mut [c_char], found| {
        // SAFETY: as `find` promises.
        unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr(), buffer.len(), found) }
    };
    find(ask, read_user)
}

fn find_group(name: &CStr) -> io::Result<Option<libc::gid_t>> {
    let query = |entry, buffer: &mut [c_char], found| {
        // SAFETY: as `find` promises; the name is a C string.
        unsafe { libc::getgrnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    };
    find(query, |entry: &libc::group| entry.gr_gid)
}

/// Queries the user database, with a larger buffer each time it is too small (getpwnam(3)). `ask`
/// may write to everything that it receives.
fn find<T, R>(
    query: impl Fn(*mut T, &mut [c_char], *mut *mut T) -> c_int,
    read: impl Fn(&T) -> R,
) -> io::Result<Option<R>> {
    let mut buffer: Vec<c_char> = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::uninit();
        let mut found = ptr::null_mut();
        match query(entry.as_mut_ptr(), &mut buffer, &mut found) {
            0 if found.is_null() => return Ok(None),
            // SAFETY: the result is `entry`, which is initialized and points into `buffer`.
            0 => return Ok(Some(read(unsafe { &*found }))),
            libc::EINTR => {}
            libc::ERANGE if buffer.len() < USER_ENTRY_LEN_MAX => buffer.resize(buffer.len() * 2, 0),
            // The C libraries report a missing entry or database in these ways.
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(user: &str, group: &str) -> String {
        Identity::find(user, group).expect_err("no such identity").to_string()
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = Identity { name: Some(c"root".into()), uid: 0, gid: 0 };
        assert_eq!(Identity::find("root", "").expect("root"), root);
        assert_eq!(Identity::find("0", "root").expect("root"), root);
        let number = Identity { name: None, uid: 3_999_999_999, gid: 12 };
        assert_eq!(Identity::find("3999999999", "12").expect("numbers need no entry"), number);
    }

    #[test]
    fn unknown_user_is_reported_with_how_to_create_it() {
        let text = error_of("no-such-user", "");
        assert!(text.contains("\"no-such-user\""), "{text}");
        assert!(text.contains("systemd-sysusers"), "{text}");
        assert!(error_of("with\0nothing", "").contains("no user"));
        assert!(error_of("root", "no-such-group").contains("groupadd --system no-such-group"));
        assert!(error_of("3999999999", "").contains("[server] group"));
        for (user, group) in [("4294967295", "12"), ("root", "4294967295")] {
            assert!(error_of(user, group).contains("not a valid number"), "it would stay root");
        }
    }

    #[test]
    fn process_with_threads_keeps_its_privileges() {
        let error = drop_to("root", "", CapabilitySet::empty()).expect_err("there are threads");
        assert!(matches!(error, PrivilegeError::Threads(2..)), "{error}");
    }
}
