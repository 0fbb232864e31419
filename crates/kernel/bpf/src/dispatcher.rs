//! Joins a dispatcher of libxdp: a program that runs up to ten others, one after another (protocols
//! 2 and 3 of its `lib/libxdp/protocol.org`).
//!
//! A dispatcher is never modified. To add or remove a component, a process makes a new dispatcher
//! of all components, which replaces the first one atomically; other processes may do so while this
//! one serves. Files record the components of a dispatcher, also after the end of its maker.

use crate::attachment::{AttachMode, Attachment, attached, replace};
use crate::limits::{DISPATCHER_LOCKED_MAX, DISPATCHER_LOOK, DISPATCHER_TRIES};
use aya::maps::{Array, Map, MapData, MapInfo};
use aya::programs::links::FdLink;
use aya::programs::{Extension, ProgramError, ProgramFd, ProgramInfo, Xdp, loaded_programs};
use aya::{EbpfLoader, include_bytes_aligned};
use rustix::fs::{FlockOperation, Mode as Rights, OFlags};
use rustix::io::Errno;
use std::error::Error;
use std::fs::{self, DirBuilder};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, thread};

/// A result with the cause of the failure.
pub type BpfResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// `bpf/dispatcher.c`, compiled: for protocols 2 and 3, each for single-buffer and multi-buffer
/// packets.
static OBJECTS: [[&[u8]; 2]; 2] = [
    [
        include_bytes_aligned!("../bpf/dispatcher-2.o"),
        include_bytes_aligned!("../bpf/dispatcher-2-frags.o"),
    ],
    [
        include_bytes_aligned!("../bpf/dispatcher-3.o"),
        include_bytes_aligned!("../bpf/dispatcher-3-frags.o"),
    ],
];

/// The name of every dispatcher, and of our component.
const DISPATCHER: &str = "xdp_dispatcher";
pub const COMPONENT: &str = "dunlin";

/// The most components.
const COMPONENTS_MAX: usize = 10;
/// The start of a dispatcher's config.
const MAGIC: u8 = 236;
/// The actions after which the next component runs: `XDP_PASS`, and the value of an empty slot.
const GOES_ON: u32 = 1 << 2 | 1 << 31;
/// A component that supports multi-buffer packets (`BPF_F_XDP_HAS_FRAGS`).
const HAS_FRAGS: u32 = 1 << 5;

/// Our component's slot in the dispatcher of an interface, which other processes may replace
/// meanwhile. It is kept until it is left.
#[derive(Debug)]
#[must_use]
pub struct DispatcherSlot {
    interface: u32,
    /// Our component's ID in the kernel.
    component: u32,
    /// Files of the dispatcher that this process made.
    folder: PathBuf,
    /// A lock: only one process has it, so another component of ours in a dispatcher is a leftover.
    /// The kernel holds it for the interface and network namespace, and frees it when this process
    /// ends in any way.
    _sole: UnixDatagram,
}

impl DispatcherSlot {
    /// Takes a slot for a component that is not loaded yet, in the dispatcher of an interface;
    /// `None` if there is none. Components run in ascending priority.
    ///
    /// # Errors
    /// Its protocol is unknown, it is full, another Dunlin is in it, or the kernel refuses.
    pub fn take(
        interface: u32,
        priority: u32,
        component: &mut Extension,
    ) -> BpfResult<Option<(Self, AttachMode)>> {
        let name = format!("dunlin/xdp/{interface}");
        let sole = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?);
        let taken = change(interface, |old, components| {
            if let Err(error) = &sole {
                return Err(format!("another Dunlin is in that dispatcher ({error})").into());
            }
            components.retain(|there| there.name != COMPONENT.as_bytes());
            if components.len() == COMPONENTS_MAX {
                return Err(format!("it runs {COMPONENTS_MAX} programs already").into());
            }
            if component.fd().is_err() {
                component.load(old.program.try_clone()?, "prog0")?;
            }
            let slot = ComponentState { goes_on: GOES_ON, priority, flags: HAS_FRAGS };
            let place = |there: &DispatcherComponent| {
                (there.slot.priority, &*there.name) <= (priority, COMPONENT.as_bytes())
            };
            let ours = Extension::from_program_info(component.info()?, COMPONENT.into())?;
            components
                .insert(components.partition_point(place), DispatcherComponent::new(ours, slot)?);
            Ok(true)
        })?;
        let Some((mode, folder)) = taken else { return Ok(None) };
        let component = component.info()?.id();
        Ok(Some((Self { interface, component, folder, _sole: sole? }, mode)))
    }

    /// Whether a dispatcher with our component is attached; true if the kernel does not tell.
    pub fn is_there(&self) -> bool {
        let mut is_there = false;
        let looked = change(self.interface, |_, components| {
            is_there = components.iter().any(|there| there.id == self.component);
            Ok(false)
        });
        is_there || looked.is_err()
    }

    /// Leaves the dispatcher.
    ///
    /// # Errors
    /// The component stays: another process holds the lock, or this process no longer has the
    /// privilege.
    pub fn leave(self) -> BpfResult<()> {
        let left = change(self.interface, |_, components| {
            let before = components.len();
            components.retain(|there| there.id != self.component);
            Ok(components.len() < before)
        })?;
        // No dispatcher is attached any more, so this process removes its files.
        if left.is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
        Ok(())
    }
}

/// Replaces the dispatcher of an interface by one with other components, as `choose` decides.
/// Returns where it runs and the folder of its files; `None` if none is attached. If another
/// process is faster, `choose` is called again.
fn change(
    interface: u32,
    mut choose: impl FnMut(&Dispatcher, &mut Vec<DispatcherComponent>) -> BpfResult<bool>,
) -> BpfResult<Option<(AttachMode, PathBuf)>> {
    for _ in 0..DISPATCHER_TRIES {
        let Some(there) = attached(interface)? else { return Ok(None) };
        let mut try_once = || {
            let Some(old) = Dispatcher::find(interface, there)? else { return Ok(None) };
            let _lock = lock()?;
            let mut components = old.components()?;
            if !choose(&old, &mut components)? {
                return Ok(Some((there.mode, old.folder)));
            }
            let folder = old.replace(&mut components)?;
            Ok(Some((there.mode, folder)))
        };
        match try_once() {
            Err(_) if attached(interface)? != Some(there) => {}
            done => return done,
        }
    }
    Err("other processes changed it during each try".into())
}

/// The folder of all dispatchers' folders.
fn root() -> PathBuf {
    let file_system = env::var_os("LIBXDP_BPFFS").map_or("/sys/fs/bpf".into(), PathBuf::from);
    file_system.join("xdp")
}

/// Locks all dispatchers.
fn lock() -> BpfResult<OwnedFd> {
    let root = root();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lock = rustix::fs::open(&root, flags, Rights::empty());
    let lock = lock.map_err(|error| format!("{}: {error}", root.display()))?;
    let end = Instant::now() + DISPATCHER_LOCKED_MAX;
    while let Err(error) = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK || Instant::now() > end {
            return Err(format!("{} is not to be locked: {error}", root.display()).into());
        }
        thread::sleep(DISPATCHER_LOOK);
    }
    Ok(lock)
}

/// A dispatcher that is attached to an interface.
struct Dispatcher {
    interface: u32,
    mode: AttachMode,
    program: ProgramFd,
    config: DispatcherConfig,
    folder: PathBuf,
}

impl Dispatcher {
    /// The attached program, if it is a dispatcher.
    fn find(interface: u32, there: Attachment) -> BpfResult<Option<Self>> {
        let Attachment { program, mode } = there;
        let info = program_info(program)?;
        let maps = info.map_ids()?.unwrap_or_default();
        let [map] = maps[..] else { return Ok(None) };
        if info.name() != DISPATCHER.as_bytes() {
            return Ok(None);
        }
        let config = DispatcherConfig::parse(&read_config(map)?)?;
        let folder = folder(interface, program);
        Ok(Some(Self { interface, mode, program: info.fd()?, config, folder }))
    }

    /// Its components, in running order.
    fn components(&self) -> BpfResult<Vec<DispatcherComponent>> {
        let component = |(number, slot): (usize, &ComponentState)| {
            let file = self.folder.join(format!("prog{number}-prog"));
            let reported = |error: ProgramError| format!("{}: {}", file.display(), error);
            DispatcherComponent::new(Extension::from_pin(&file).map_err(reported)?, *slot)
        };
        self.config.slots.iter().enumerate().map(component).collect()
    }

    /// Replaces it by one with these components, or detaches it if there are none; returns the new
    /// one's folder.
    fn replace(&self, components: &mut [DispatcherComponent]) -> BpfResult<PathBuf> {
        let slots = components.iter().map(|component| component.slot).collect();
        let config = DispatcherConfig { protocol: self.config.protocol, slots };
        let mut made = PathBuf::new();
        if components.is_empty() {
            replace(self.interface, &self.program, None::<&ProgramFd>, self.mode)?;
        } else {
            let (program, number) = config.load()?;
            made = folder(self.interface, number);
            DirBuilder::new().mode(0o700).create(&made)?;
            let attached = keep(&program, components, &made).and_then(|()| {
                Ok(replace(self.interface, &self.program, Some(&program), self.mode)?)
            });
            if attached.is_err() {
                let _ = fs::remove_dir_all(&made);
            }
            attached?;
        }
        // No process uses it any more.
        let _ = fs::remove_dir_all(&self.folder);
        Ok(made)
    }
}

/// The folder of a dispatcher.
fn folder(interface: u32, program: u32) -> PathBuf {
    root().join(format!("dispatch-{interface}-{program}"))
}

/// Records these components of a dispatcher in files.
fn keep(
    dispatcher: &ProgramFd,
    components: &mut [DispatcherComponent],
    folder: &Path,
) -> BpfResult<()> {
    for (number, DispatcherComponent { program, .. }) in components.iter_mut().enumerate() {
        let link = program.attach_to_program(dispatcher, &format!("prog{number}"))?;
        let link: FdLink = program.take_link(link)?.into();
        link.pin(folder.join(format!("prog{number}-link")))?;
        program.pin(folder.join(format!("prog{number}-prog")))?;
    }
    Ok(())
}

/// A program in the kernel, found among all programs.
fn program_info(number: u32) -> BpfResult<ProgramInfo> {
    let mut failed = None;
    for program in loaded_programs() {
        match program {
            Ok(program) if program.id() == number => return Ok(program),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.map_or_else(|| "it is gone".into(), Into::into))
}

/// The config of a dispatcher, in numbers of four bytes.
fn read_config(map: u32) -> BpfResult<Vec<u32>> {
    let bytes = MapInfo::from_id(map)?.value_size();
    let map = Map::Array(MapData::from_id(map)?);
    match bytes {
        124 => Ok(Array::<_, [u32; 31]>::try_from(map)?.get(&0, 0)?.to_vec()),
        128 => Ok(Array::<_, [u32; 32]>::try_from(map)?.get(&0, 0)?.to_vec()),
        _ => {
            Err(format!("its config has {bytes} bytes, which no protocol has that is known").into())
        }
    }
}

/// A component of a dispatcher.
struct DispatcherComponent {
    program: Extension,
    /// Its name, as far as the kernel reports it.
    name: Vec<u8>,
    /// Its ID in the kernel.
    id: u32,
    slot: ComponentState,
}

impl DispatcherComponent {
    fn new(program: Extension, slot: ComponentState) -> BpfResult<Self> {
        let info = program.info()?;
        Ok(Self { name: info.name().to_vec(), id: info.id(), program, slot })
    }
}

/// The state of a component in a dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ComponentState {
    /// A bit for each action after which the next one runs.
    goes_on: u32,
    priority: u32,
    flags: u32,
}

/// The config of a dispatcher.
#[derive(Debug, PartialEq, Eq)]
struct DispatcherConfig {
    protocol: u8,
    slots: Vec<ComponentState>,
}

impl DispatcherConfig {
    fn parse(words: &[u32]) -> Result<Self, String> {
        let [magic, protocol, count, _] = words.first().map_or([0; 4], |word| word.to_ne_bytes());
        if magic != MAGIC {
            return Err("its config is not one of a dispatcher".to_owned());
        }
        let known = matches!((protocol, words.len()), (2, 31) | (3, 32));
        if !known {
            return Err(format!("it is of protocol {protocol}, and 2 and 3 are known"));
        }
        if usize::from(count) > COMPONENTS_MAX {
            return Err(format!("it claims to run {count} programs"));
        }
        if words.get(31).is_some_and(|last| last & 0xff != 0) {
            return Err("it is bound to its device".to_owned());
        }
        let slot = |nth: usize| ComponentState {
            goes_on: words[1 + nth],
            priority: words[11 + nth],
            flags: words[21 + nth],
        };
        Ok(Self { protocol, slots: (0..count.into()).map(slot).collect() })
    }

    fn compose(&self, has_frags: bool) -> Vec<u32> {
        let mut words = vec![0; 29 + usize::from(self.protocol)];
        let count = self.slots.len() as u8;
        words[0] = u32::from_ne_bytes([MAGIC, self.protocol, count, has_frags.into()]);
        for (nth, slot) in self.slots.iter().enumerate() {
            words[1 + nth] = slot.goes_on;
            words[11 + nth] = slot.priority;
            words[21 + nth] = slot.flags;
        }
        words
    }

    /// Loads a dispatcher; returns its ID. It gets multi-buffer packets if all its components and
    /// the kernel (Linux 5.18) support them.
    fn load(&self) -> BpfResult<(ProgramFd, u32)> {
        let has_frags = self.slots.iter().all(|slot| slot.flags & HAS_FRAGS != 0);
        let loaded = self.load_for(has_frags);
        if loaded.is_err() && has_frags { self.load_for(false) } else { loaded }
    }

    fn load_for(&self, has_frags: bool) -> BpfResult<(ProgramFd, u32)> {
        let config = self.compose(has_frags);
        let object = OBJECTS[usize::from(self.protocol) - 2][usize::from(has_frags)];
        let mut ebpf = EbpfLoader::new().override_global("conf", &config[..], true).load(object)?;
        let program: &mut Xdp = ebpf.program_mut(DISPATCHER).ok_or("no program")?.try_into()?;
        program.load()?;
        Ok((program.fd()?.try_clone()?, program.info()?.id()))
    }
}

#[cfg(test)]
use test_support::skip;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn committed_objects_are_what_clang_makes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
        for (protocol, has_frags) in [(2, false), (2, true), (3, false), (3, true)] {
            let (flag, frags) = (format!("-DPROTOCOL={protocol}"), &["-DFRAGS"][..]);
            let (frags, name) = if has_frags { (frags, "-frags") } else { (&[][..], "") };
            let object = format!("dispatcher-{protocol}{name}.o");
            let flags = [&[flag.as_str()][..], frags].concat();
            test_support::bpf::expect_object(&folder, "dispatcher.c", &object, &flags);
        }
    }

    #[test]
    fn the_kernel_takes_every_dispatcher() {
        if !rustix::process::geteuid().is_root() {
            return skip::skip("loading programs needs root");
        }
        for (protocol, has_frags) in [(2, false), (2, true), (3, false), (3, true)] {
            let slot = ComponentState { goes_on: GOES_ON, priority: 50, flags: HAS_FRAGS };
            let config = DispatcherConfig { protocol, slots: vec![slot; COMPONENTS_MAX] };
            let (_program, number) = config.load_for(has_frags).expect("it is taken");
            let info = program_info(number).expect("it is there");
            assert_eq!(info.name(), DISPATCHER.as_bytes());
            let map = info.map_ids().expect("its tables").expect("map IDs")[0];
            assert_eq!(read_config(map).expect("a config"), config.compose(has_frags));
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let config = DispatcherConfig { protocol: 2, slots: vec![] };
        let reported = |word: u32, words: usize| {
            let mut config = config.compose(false);
            config[0] = word;
            config.resize(words, 0);
            DispatcherConfig::parse(&config).unwrap_err()
        };
        let first = |bytes| u32::from_ne_bytes(bytes);
        assert!(reported(first([1, 2, 0, 0]), 31).contains("not one of a dispatcher"));
        assert!(reported(first([MAGIC, 4, 0, 0]), 31).contains("protocol 4"));
        assert!(reported(first([MAGIC, 2, 0, 0]), 32).contains("protocol 2"));
        assert!(reported(first([MAGIC, 2, 11, 0]), 31).contains("11 programs"));
        let mut bound = DispatcherConfig { protocol: 3, slots: vec![] }.compose(false);
        bound[31] = 1;
        assert!(DispatcherConfig::parse(&bound).unwrap_err().contains("bound"));
        assert!(DispatcherConfig::parse(&[]).is_err());
    }

    proptest! {
        #[test]
        fn a_config_is_read_as_it_is_written(
            protocol in 2u8..=3,
            slots in prop::collection::vec(any::<[u32; 3]>(), 0..=COMPONENTS_MAX),
        ) {
            let slot =
                |[goes_on, priority, flags]: [u32; 3]| ComponentState { goes_on, priority, flags };
            let slots = slots.into_iter().map(slot).collect();
            let config = DispatcherConfig { protocol, slots };
            prop_assert_eq!(DispatcherConfig::parse(&config.compose(true)), Ok(config));
        }

        #[test]
        fn nothing_in_a_config_makes_it_panic(words in prop::collection::vec(any::<u32>(), 0..40)) {
            let _ = DispatcherConfig::parse(&words);
        }
    }
}
