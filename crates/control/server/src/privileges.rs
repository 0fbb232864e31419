//! Who the process is once its sockets are open, and what it may still do then.
use crate::limits::USER_ENTRY_LEN_MAX;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Privileges could not be given up; the server must not go on with them.
#[derive(Debug)]
pub enum PrivilegeError {
    /// `[server] user` is nobody's name.
    NoUser(String),
    /// `[server] group` is no group's name.
    NoGroup(String),
    /// A group without a user.
    GroupAlone,
    /// A user by number whom no entry gives a group.
    UserWithoutGroup(u32),
    /// The number by which system calls mean that nothing is to change (setresuid(2)).
    NoNumber(u32),
    /// Capabilities belong to threads: those that run already would keep theirs.
    Threads(usize),
    /// The kernel or the user database refused a step.
    Refused(&'static str, io::Error),
    /// Everything was granted, and root could still be had again.
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
                write!(f, "[server] group says nothing without [server] user; name the user too")
            }
            Self::UserWithoutGroup(user) => write!(
                f,
                "[server] user: no entry of the user database tells the group of {user}; name it \
                 in [server] group"
            ),
            Self::NoNumber(number) => {
                write!(f, "[server] user and group: {number} is the number of nobody; name another")
            }
            Self::Threads(count) => {
                write!(f, "privileges can be dropped by one thread only, and there are {count}")
            }
            Self::Refused(step, error) => {
                write!(f, "cannot {step}: {error}")?;
                if Errno::from_io_error(error) == Some(Errno::PERM) {
                    write!(
                        f,
                        "; it takes CAP_SETUID and CAP_SETGID: grant them, or start dunlin as \
                         that user and leave [server] user empty"
                    )?;
                }
                Ok(())
            }
            Self::Regained => write!(f, "root can still be had after privileges were dropped"),
        }
    }
}

impl std::error::Error for PrivilegeError {}

/// Becomes `user` and `group` (names or numbers; empty: the process stays who it is, `group`: the
/// user's own) and keeps of its capabilities those in `keep`. It also sets `no_new_privs`: no
/// program it might run gains any.
///
/// To be called once sockets are bound and before any thread starts: user and group belong to the
/// process, but capabilities and `no_new_privs` to each thread, which has them from the one that
/// started it. Files opened later (zones, the data folder, the config) must be the user's to read.
///
/// # Errors
/// The user or group is unknown, the kernel refuses, or there are threads already.
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
            tracing::debug!(user, "[server] user is left alone: dunlin was not started as root");
        }
        return restrict(keep);
    }
    if user.is_empty() {
        tracing::warn!(
            "running as root: name a user in [server] user, such as \"dunlin\", and dunlin \
             becomes that user once its sockets are open"
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

fn refused<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> PrivilegeError {
    move |error| PrivilegeError::Refused(step, error.into())
}

/// Lowers this thread's capabilities to those in `keep` that it has.
fn restrict(keep: CapabilitySet) -> Result<(), PrivilegeError> {
    let has = rustix::thread::capabilities(None).map_err(refused("read capabilities"))?;
    let left = has.permitted & keep;
    let none = CapabilitySet::empty();
    // What is no longer permitted or inheritable is no longer ambient (capabilities(7)).
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: none };
    rustix::thread::set_capabilities(None, sets).map_err(refused("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(refused("set no_new_privs"))
}

/// Takes what is not in `keep` from what a program could be granted. Where that is not allowed, as
/// in some containers, `no_new_privs` alone sees to it.
fn drop_bounding(keep: CapabilitySet) -> Result<(), PrivilegeError> {
    let has = rustix::thread::capabilities(None).map_err(refused("read capabilities"))?;
    if !has.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    // The kernel says which is the last that it knows: the first it does not.
    for one in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        let Ok(bounding) = rustix::thread::capability_is_in_bounding_set(one) else { break };
        if bounding && !keep.contains(one) {
            rustix::thread::remove_capability_from_bounding_set(one)
                .map_err(refused("drop capabilities"))?;
        }
    }
    Ok(())
}

/// A user and its group, as the kernel knows them.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    /// Nothing: the user database does not know the number, nor other groups of this user.
    name: Option<CString>,
    pub uid: libc::uid_t,
    pub gid: libc::gid_t,
}

impl Identity {
    /// Whom this process becomes once it drops its privileges; nothing: it stays who it is.
    ///
    /// # Errors
    /// The user or group is unknown.
    pub fn wanted(user: &str, group: &str) -> Result<Option<Self>, PrivilegeError> {
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

    fn find(user: &str, group: &str) -> Result<Self, PrivilegeError> {
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
            nobody if uid == nobody || gid == nobody => Err(PrivilegeError::NoNumber(nobody)),
            _ => Ok(Self { name, uid, gid }),
        }
    }

    /// Becomes it: groups first, for that takes the user that is given up last.
    fn assume(&self) -> Result<(), PrivilegeError> {
        let Self { name, uid, gid } = self;
        let groups = match name {
            // SAFETY: the name is a C string that lives through the call.
            Some(name) => unsafe { libc::initgroups(name.as_ptr(), *gid) },
            // SAFETY: no element is read of a list of none.
            None => unsafe { libc::setgroups(0, ptr::null()) },
        };
        done(groups, "give up root's groups")?;
        // SAFETY: takes numbers only. The C library sees to it that all threads do it.
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
    let ask = |entry, buffer: &mut [c_char], found| {
        // SAFETY: as `find` promises; the name is a C string.
        unsafe { libc::getgrnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    };
    find(ask, |entry: &libc::group| entry.gr_gid)
}

/// Asks the user database, with more room each time it says that there is too little (getpwnam(3)).
/// All that `ask` is given may be written to during the call.
fn find<T, R>(
    ask: impl Fn(*mut T, &mut [c_char], *mut *mut T) -> c_int,
    read: impl Fn(&T) -> R,
) -> io::Result<Option<R>> {
    let mut buffer: Vec<c_char> = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::uninit();
        let mut found = ptr::null_mut();
        match ask(entry.as_mut_ptr(), &mut buffer, &mut found) {
            0 if found.is_null() => return Ok(None),
            // SAFETY: what was found is `entry`, filled in, and points into `buffer`.
            0 => return Ok(Some(read(unsafe { &*found }))),
            libc::EINTR => {}
            libc::ERANGE if buffer.len() < USER_ENTRY_LEN_MAX => buffer.resize(buffer.len() * 2, 0),
            // How the C libraries say that there is no such entry, or no database.
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(user: &str, group: &str) -> String {
        Identity::find(user, group).expect_err("nobody").to_string()
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
    fn an_unknown_user_is_told_with_how_to_create_it() {
        let text = told("nobody-of-that-name", "");
        assert!(text.contains("\"nobody-of-that-name\""), "{text}");
        assert!(text.contains("systemd-sysusers"), "{text}");
        assert!(told("with\0nothing", "").contains("no user"));
        assert!(told("root", "no-such-group").contains("groupadd --system no-such-group"));
        assert!(told("3999999999", "").contains("[server] group"));
        for (user, group) in [("4294967295", "12"), ("root", "4294967295")] {
            assert!(told(user, group).contains("the number of nobody"), "it would stay root");
        }
    }

    #[test]
    fn tests_have_threads_and_so_keep_what_they_have() {
        let error = drop_to("root", "", CapabilitySet::empty()).expect_err("there are threads");
        assert!(matches!(error, PrivilegeError::Threads(2..)), "{error}");
    }
}
