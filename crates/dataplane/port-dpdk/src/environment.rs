//! DPDK's environment of the process, in a thread of its own: it binds the thread that starts it.

use crate::limits::DEVICES_MAX;
use crate::{DeviceAddress, DpdkError, Library};
use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// How DPDK is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentOptions {
    /// Names its files, and is different for each process.
    pub prefix: String,
    /// Whether its memory is in huge pages.
    pub huge_pages: bool,
    /// Bytes of its memory.
    pub memory: u64,
    /// The CPUs of its own thread, such as `0-3`.
    pub cpus: String,
    /// Its devices. Others on the PCI bus are not touched.
    pub devices: Vec<DeviceAddress>,
}

/// What the thread does for others.
type Job = Box<dyn FnOnce(Library) + Send>;

/// DPDK's environment. Its thread ends with it; DPDK's own threads, and its memory, stay until the
/// process ends.
#[derive(Clone, Debug)]
pub struct Environment {
    library: Library,
    jobs: SyncSender<Job>,
}

/// Whether DPDK was started in this process, and then its environment.
static IS_STARTED: AtomicBool = AtomicBool::new(false);
static CURRENT: OnceLock<Environment> = OnceLock::new();

impl Environment {
    /// Starts DPDK. A process can do that once.
    ///
    /// # Errors
    /// It was started before, or does not start: there is no memory for it, or one of its drivers
    /// is broken.
    pub fn start(library: Library, options: &EnvironmentOptions) -> Result<Self, DpdkError> {
        let arguments = options.arguments()?;
        if IS_STARTED.swap(true, Ordering::Relaxed) {
            return Err(DpdkError::Started);
        }
        let ((jobs, received), (started, result)) = (sync_channel::<Job>(0), sync_channel(1));
        let body = move || serve(library, &arguments, &started, &received);
        let thread = thread::Builder::new().name("dpdk".into()).spawn(body);
        thread.map_err(|error| DpdkError::Environment(format!("no thread for DPDK: {error}")))?;
        let ended = || DpdkError::Environment("the thread of DPDK ended".into());
        result.recv().map_err(|_| ended())??;
        Ok(CURRENT.get_or_init(|| Self { library, jobs }).clone())
    }

    /// The environment of this process; `None`: DPDK was not started, or does not start.
    pub fn current() -> Option<Self> {
        CURRENT.get().cloned()
    }

    /// The library.
    pub fn library(&self) -> Library {
        self.library
    }

    /// Runs a function in the thread of DPDK, and waits for its result.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(Library) -> Result<T, DpdkError> + Send + 'static,
    ) -> Result<T, DpdkError> {
        let (done, result) = sync_channel(1);
        let ended = || DpdkError::Environment("the thread of DPDK ended".into());
        let job = move |library: Library| drop(done.send(job(library)));
        self.jobs.send(Box::new(job)).map_err(|_| ended())?;
        result.recv().map_err(|_| ended())?
    }
}

/// The life of the thread.
fn serve(
    library: Library,
    arguments: &[CString],
    started: &SyncSender<Result<(), DpdkError>>,
    jobs: &Receiver<Job>,
) {
    let mut pointers: Vec<_> = arguments.iter().map(|one| one.as_ptr().cast_mut()).collect();
    let count = pointers.len() as i32;
    // SAFETY: so many texts, which live as long as this thread; DPDK changes the order alone.
    let status = unsafe { (library.calls().start)(count, pointers.as_mut_ptr()) };
    let result = match status {
        0 => Ok(()),
        _ => Err(DpdkError::Environment(library.problem())),
    };
    // Who started it has ended if this fails.
    let _ = started.send(result);
    jobs.iter().for_each(|job| job(library));
}

impl EnvironmentOptions {
    /// The arguments of `rte_eal_init`: no file is shared with another process, and no device is
    /// touched that is not listed.
    fn arguments(&self) -> Result<Vec<CString>, DpdkError> {
        if self.devices.len() > DEVICES_MAX {
            let why = format!("{} devices, and {DEVICES_MAX} are possible", self.devices.len());
            return Err(DpdkError::Environment(why));
        }
        let memory = self.memory.div_ceil(1 << 20).to_string();
        let lcores = format!("--lcores=0@({})", self.cpus);
        let prefix = format!("--file-prefix={}", self.prefix);
        let mut arguments = vec!["dunlin".to_owned(), lcores, prefix, "--no-telemetry".into()];
        arguments.extend(["-m".into(), memory]);
        match self.huge_pages {
            true => arguments.push("--in-memory".into()),
            // Without huge pages "--in-memory" is refused.
            false => arguments.extend(["--no-huge".into(), "--no-shconf".into()]),
        }
        let on_bus = self.devices.iter().filter(|device| device.is_pci());
        let allowed: Vec<_> = on_bus.flat_map(|one| ["-a".to_owned(), one.to_string()]).collect();
        match allowed.is_empty() {
            true => arguments.push("--no-pci".into()),
            false => arguments.extend(allowed),
        }
        let text = |text: String| {
            CString::new(text).map_err(|_| DpdkError::Environment("a NUL in an argument".into()))
        };
        arguments.into_iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(huge_pages: bool, devices: &[&str]) -> String {
        let devices = devices.iter().map(|device| device.parse().expect("a device")).collect();
        let options = EnvironmentOptions {
            prefix: "dunlin-7".into(),
            huge_pages,
            memory: 64 << 20,
            cpus: "0-1".into(),
            devices,
        };
        let arguments = options.arguments().expect("arguments");
        arguments.iter().map(|one| one.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_listed_devices_are_touched_and_no_file_is_shared() {
        let first = "dunlin --lcores=0@(0-1) --file-prefix=dunlin-7 --no-telemetry -m 64";
        assert_eq!(
            arguments(false, &["net_memif0,id=1"]),
            format!("{first} --no-huge --no-shconf --no-pci")
        );
        assert_eq!(
            arguments(true, &["0000:01:00.0", "net_null0", "0000:02:00.1"]),
            format!("{first} --in-memory -a 0000:01:00.0 -a 0000:02:00.1")
        );
    }
}
