//! One thread of another process that stands still, as one that hangs does.
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::ptr;

/// A thread that stands still until this is dropped. It belongs to the thread that stopped it
/// (ptrace(2)).
pub struct StoppedThread {
    thread: libc::pid_t,
    _not_send: PhantomData<*const ()>,
}

impl StoppedThread {
    /// Stops the thread with this name of a child process.
    ///
    /// # Panics
    /// There is no such thread, or the kernel refuses.
    pub fn stop(process: u32, name: &str) -> Self {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten();
        let has_name = |task: &fs::DirEntry| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|found| found.trim_end() == name)
        };
        let task = tasks.into_iter().find(has_name).expect("a thread of this name");
        let id = task.file_name().to_str().and_then(|id| id.parse::<libc::pid_t>().ok());
        let thread = id.expect("a number");
        let trace = |request: libc::c_uint| {
            // SAFETY: these requests take numbers only.
            let done = unsafe {
                libc::ptrace(request, thread, ptr::null_mut::<u8>(), ptr::null_mut::<u8>())
            };
            assert_eq!(done, 0, "ptrace: {}", io::Error::last_os_error());
        };
        trace(libc::PTRACE_SEIZE);
        let stopped = Self { thread, _not_send: PhantomData };
        trace(libc::PTRACE_INTERRUPT);
        // SAFETY: the status is not asked for.
        let waited = unsafe { libc::waitpid(thread, ptr::null_mut(), libc::__WALL) };
        assert_eq!(waited, thread, "waitpid: {}", io::Error::last_os_error());
        stopped
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        // SAFETY: takes numbers only. It fails if the process has ended, which ends it, too.
        unsafe {
            let nothing = ptr::null_mut::<u8>();
            libc::ptrace(libc::PTRACE_DETACH, self.thread, nothing, nothing);
        }
    }
}
