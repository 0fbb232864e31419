//! A place beside other XDP programs at an interface: in a dispatcher, a program that runs up to
//! ten others, one after another, as libxdp makes them (protocols 2 and 3 of its
//! `lib/libxdp/protocol.org`).
//!
//! A dispatcher is never changed. Who comes or goes makes another one of all programs that are to
//! run, which takes the place of the first at once; so others do it while we are served. What a
//! dispatcher consists of is kept by files, also past the end of who made them.

use crate::attached::Mode;
use crate::interface::{Attachment, attached, replace};
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

/// What failed, as it is told.
pub type Told<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// `bpf/dispatcher.c`, compiled: for protocols 2 and 3, each for packets in one buffer and in
/// several.
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
/// What a dispatcher's config begins with.
const MAGIC: u8 = 236;
/// What has the next component run: a packet that is let pass (`XDP_PASS`), and a component that is
/// not there.
const GOES_ON: u32 = 1 << 2 | 1 << 31;
/// A component that knows of packets in several buffers (`BPF_F_XDP_HAS_FRAGS`).
const HAS_FRAGS: u32 = 1 << 5;

/// Our component's place in the dispatcher of an interface, whoever makes that meanwhile. It is
/// kept until it is left.
#[derive(Debug)]
#[must_use]
pub struct Place {
    interface: u32,
    /// Our component's number in the kernel.
    component: u32,
    /// Files of the dispatcher that we made.
    folder: PathBuf,
    /// Nobody else has it: so what there is of us in a dispatcher is a left-over. The kernel keeps
    /// it by interface and network namespace, and frees it however this process ends.
    _sole: UnixDatagram,
}

impl Place {
    /// Takes one for a component that is yet to be loaded, in the dispatcher that is at an
    /// interface; nothing: there is none. It runs before those of a higher priority.
    ///
    /// # Errors
    /// It is not of a protocol that is known; it is full; another Dunlin is in it; or the kernel
    /// refuses.
    pub fn take(
        interface: u32,
        priority: u32,
        component: &mut Extension,
    ) -> Told<Option<(Self, Mode)>> {
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
            let slot = Slot { goes_on: GOES_ON, priority, flags: HAS_FRAGS };
            let place = |there: &Component| {
                (there.slot.priority, &*there.name) <= (priority, COMPONENT.as_bytes())
            };
            let ours = Extension::from_program_info(component.info()?, COMPONENT.into())?;
            components.insert(components.partition_point(place), Component::new(ours, slot)?);
            Ok(true)
        })?;
        let Some((mode, folder)) = taken else { return Ok(None) };
        let component = component.info()?.id();
        Ok(Some((Self { interface, component, folder, _sole: sole? }, mode)))
    }

    /// Whether a dispatcher is there that has our component; where that is not told, it is.
    pub fn is_there(&self) -> bool {
        let mut is_there = false;
        let looked = change(self.interface, |_, components| {
            is_there = components.iter().any(|there| there.id == self.component);
            Ok(false)
        });
        is_there || looked.is_err()
    }

    /// Leaves the dispatcher to the others.
    ///
    /// # Errors
    /// The component stays there: somebody else has the dispatchers locked, or this process has
    /// given up what it takes.
    pub fn leave(self) -> Told<()> {
        let left = change(self.interface, |_, components| {
            let before = components.len();
            components.retain(|there| there.id != self.component);
            Ok(components.len() < before)
        })?;
        // Nobody has a dispatcher there any more, and so nobody else removes what ours was made of.
        if left.is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
        Ok(())
    }
}

/// Has a dispatcher with other components in the place of the one at an interface, if it is chosen
/// so, and tells who runs it and the folder of its files; nothing: none is there. Where somebody
/// else is faster, the choice is another one.
fn change(
    interface: u32,
    mut choose: impl FnMut(&Dispatcher, &mut Vec<Component>) -> Told<bool>,
) -> Told<Option<(Mode, PathBuf)>> {
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
    Err("it was changed by others all the time".into())
}

/// The folder of all dispatchers' folders.
fn root() -> PathBuf {
    let file_system = env::var_os("LIBXDP_BPFFS").map_or("/sys/fs/bpf".into(), PathBuf::from);
    file_system.join("xdp")
}

/// Keeps others from changing any dispatcher.
fn lock() -> Told<OwnedFd> {
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

/// One that is at an interface.
struct Dispatcher {
    interface: u32,
    mode: Mode,
    program: ProgramFd,
    config: Config,
    folder: PathBuf,
}

impl Dispatcher {
    /// What is attached to an interface, if it is one.
    fn find(interface: u32, there: Attachment) -> Told<Option<Self>> {
        let Attachment { program, mode } = there;
        let info = program_info(program)?;
        let maps = info.map_ids()?.unwrap_or_default();
        let [map] = maps[..] else { return Ok(None) };
        if info.name() != DISPATCHER.as_bytes() {
            return Ok(None);
        }
        let config = Config::parse(&read_config(map)?)?;
        let folder = folder(interface, program);
        Ok(Some(Self { interface, mode, program: info.fd()?, config, folder }))
    }

    /// Those that it runs, in that order.
    fn components(&self) -> Told<Vec<Component>> {
        let component = |(number, slot): (usize, &Slot)| {
            let file = self.folder.join(format!("prog{number}-prog"));
            let told = |error: ProgramError| format!("{}: {}", file.display(), error);
            Component::new(Extension::from_pin(&file).map_err(told)?, *slot)
        };
        self.config.slots.iter().enumerate().map(component).collect()
    }

    /// Has one with these components in its place, or none where there are none; the new one's
    /// folder.
    fn replace(&self, components: &mut [Component]) -> Told<PathBuf> {
        let slots = components.iter().map(|component| component.slot).collect();
        let config = Config { protocol: self.config.protocol, slots };
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
        // It is nobody's any more.
        let _ = fs::remove_dir_all(&self.folder);
        Ok(made)
    }
}

/// The folder of a dispatcher.
fn folder(interface: u32, program: u32) -> PathBuf {
    root().join(format!("dispatch-{interface}-{program}"))
}

/// Has these components run by a dispatcher for as long as there are their files.
fn keep(dispatcher: &ProgramFd, components: &mut [Component], folder: &Path) -> Told<()> {
    for (number, Component { program, .. }) in components.iter_mut().enumerate() {
        let link = program.attach_to_program(dispatcher, &format!("prog{number}"))?;
        let link: FdLink = program.take_link(link)?.into();
        link.pin(folder.join(format!("prog{number}-link")))?;
        program.pin(folder.join(format!("prog{number}-prog")))?;
    }
    Ok(())
}

/// A program that the kernel has: it is asked for all of them.
fn program_info(number: u32) -> Told<ProgramInfo> {
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

/// What a dispatcher was told, in numbers of four octets.
fn read_config(map: u32) -> Told<Vec<u32>> {
    let octets = MapInfo::from_id(map)?.value_size();
    let map = Map::Array(MapData::from_id(map)?);
    match octets {
        124 => Ok(Array::<_, [u32; 31]>::try_from(map)?.get(&0, 0)?.to_vec()),
        128 => Ok(Array::<_, [u32; 32]>::try_from(map)?.get(&0, 0)?.to_vec()),
        _ => {
            Err(format!("its config has {octets} octets, which no protocol has that is known")
                .into())
        }
    }
}

/// A program that a dispatcher runs.
struct Component {
    program: Extension,
    /// As far as the kernel tells it.
    name: Vec<u8>,
    /// The kernel's number of it.
    id: u32,
    slot: Slot,
}

impl Component {
    fn new(program: Extension, slot: Slot) -> Told<Self> {
        let info = program.info()?;
        Ok(Self { name: info.name().to_vec(), id: info.id(), program, slot })
    }
}

/// What a dispatcher knows of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// A bit for each action after which the next one runs.
    goes_on: u32,
    priority: u32,
    flags: u32,
}

/// What a dispatcher is told when it is made.
#[derive(Debug, PartialEq, Eq)]
struct Config {
    protocol: u8,
    slots: Vec<Slot>,
}

impl Config {
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
            return Err(format!("it says that it runs {count} programs"));
        }
        if words.get(31).is_some_and(|last| last & 0xff != 0) {
            return Err("it is bound to its device".to_owned());
        }
        let slot = |nth: usize| Slot {
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

    /// Loads a dispatcher, and tells its number. It gets packets in several buffers where all its
    /// components know of them, and the kernel does (Linux 5.18).
    fn load(&self) -> Told<(ProgramFd, u32)> {
        let has_frags = self.slots.iter().all(|slot| slot.flags & HAS_FRAGS != 0);
        let loaded = self.load_for(has_frags);
        if loaded.is_err() && has_frags { self.load_for(false) } else { loaded }
    }

    fn load_for(&self, has_frags: bool) -> Told<(ProgramFd, u32)> {
        let config = self.compose(has_frags);
        let object = OBJECTS[usize::from(self.protocol) - 2][usize::from(has_frags)];
        let mut ebpf = EbpfLoader::new().override_global("conf", &config[..], true).load(object)?;
        let program: &mut Xdp = ebpf.program_mut(DISPATCHER).ok_or("no program")?.try_into()?;
        program.load()?;
        Ok((program.fd()?.try_clone()?, program.info()?.id()))
    }
}

#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernel_takes_every_dispatcher() {
        if !rustix::process::geteuid().is_root() {
            return skip::skip("loading programs needs root");
        }
        for (protocol, has_frags) in [(2, false), (2, true), (3, false), (3, true)] {
            let slot = Slot { goes_on: GOES_ON, priority: 50, flags: HAS_FRAGS };
            let config = Config { protocol, slots: vec![slot; COMPONENTS_MAX] };
            let (_program, number) = config.load_for(has_frags).expect("it is taken");
            let info = program_info(number).expect("it is there");
            assert_eq!(info.name(), DISPATCHER.as_bytes());
            let map = info.map_ids().expect("its tables").expect("they are told")[0];
            assert_eq!(read_config(map).expect("a config"), config.compose(has_frags));
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let config = Config { protocol: 2, slots: vec![] };
        let told = |word: u32, words: usize| {
            let mut config = config.compose(false);
            config[0] = word;
            config.resize(words, 0);
            Config::parse(&config).unwrap_err()
        };
        let first = |octets| u32::from_ne_bytes(octets);
        assert!(told(first([1, 2, 0, 0]), 31).contains("not one of a dispatcher"));
        assert!(told(first([MAGIC, 4, 0, 0]), 31).contains("protocol 4"));
        assert!(told(first([MAGIC, 2, 0, 0]), 32).contains("protocol 2"));
        assert!(told(first([MAGIC, 2, 11, 0]), 31).contains("11 programs"));
        let mut bound = Config { protocol: 3, slots: vec![] }.compose(false);
        bound[31] = 1;
        assert!(Config::parse(&bound).unwrap_err().contains("bound"));
        assert!(Config::parse(&[]).is_err());
    }

    proptest! {
        #[test]
        fn a_config_is_read_as_it_is_written(
            protocol in 2u8..=3,
            slots in prop::collection::vec(any::<[u32; 3]>(), 0..=COMPONENTS_MAX),
        ) {
            let slot = |[goes_on, priority, flags]: [u32; 3]| Slot { goes_on, priority, flags };
            let config = Config { protocol, slots: slots.into_iter().map(slot).collect() };
            prop_assert_eq!(Config::parse(&config.compose(true)), Ok(config));
        }

        #[test]
        fn nothing_in_a_config_makes_it_panic(words in prop::collection::vec(any::<u32>(), 0..40)) {
            let _ = Config::parse(&words);
        }
    }
}
