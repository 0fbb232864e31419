//! A program of the kernel, attached to an interface.

use crate::attachment::AttachMode;
use crate::dispatcher::{COMPONENT, DispatcherSlot};
use aya::maps::{Map, MapData, MapError, PerCpuArray};
use aya::programs::links::FdLink;
use aya::programs::{Program, ProgramError, Xdp, XdpMode};
use aya::{Ebpf, EbpfError, EbpfLoader};
use std::collections::HashMap;
use std::error::Error;
use std::{fmt, io};

/// Why a program does not run on an interface.
#[derive(Debug)]
pub enum XdpError {
    /// The interface does not exist, or is not suitable.
    Interface(io::Error),
    /// The kernel does not load the program.
    Load(Box<dyn Error + Send + Sync>),
    /// The kernel does not attach the program.
    Attach(Box<dyn Error + Send + Sync>),
    /// Another program is attached.
    Busy(String),
    /// Another program is attached, and joining its dispatcher failed.
    Dispatcher(String, Box<dyn Error + Send + Sync>),
    /// The component stays in its dispatcher.
    Stays(Box<dyn Error + Send + Sync>),
    /// The program would stay attached after the end of this process.
    NoLink,
    /// A map of the program refuses an entry.
    Table(&'static str, Box<dyn Error + Send + Sync>),
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(error) => error.fmt(f),
            Self::Load(error) => write!(
                f,
                "the kernel does not load the XDP program: {}; it needs Linux 5.9, CAP_BPF and \
                 CAP_NET_ADMIN",
                chain(&**error)
            ),
            Self::Attach(error) => {
                write!(f, "the XDP program cannot be attached: {}", chain(&**error))
            }
            Self::Busy(name) => write!(
                f,
                "another XDP program is attached to {name} (`ip link show dev {name}` tells \
                 which): detach it, or leave this interface to sockets"
            ),
            Self::Dispatcher(name, error) => write!(
                f,
                "another XDP program is attached to {name}, and cannot be joined: {}; joining \
                 libxdp's dispatcher needs Linux 5.10, the BPF file system, and root or \
                 CAP_SYS_ADMIN and CAP_DAC_OVERRIDE",
                chain(&**error)
            ),
            Self::Stays(error) => write!(
                f,
                "the XDP program stays in its dispatcher, where it lets everything pass and is \
                 replaced by the next start: {}",
                chain(&**error)
            ),
            Self::NoLink => write!(
                f,
                "this kernel attaches XDP programs only so that they outlive the process: it needs \
                 Linux 5.9"
            ),
            Self::Table(name, error) => {
                write!(f, "cannot write the XDP program's table of {name}: {}", chain(&**error))
            }
        }
    }
}

impl Error for XdpError {}

/// An error with all its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

/// A program for kernels without multi-buffer packets (before Linux 5.18).
const WHOLE: &str = "dunlin_whole";

/// The maps of a program.
pub struct ProgramMaps(HashMap<String, Map>);

impl ProgramMaps {
    fn take(ebpf: &mut Ebpf) -> Self {
        let names: Vec<_> = ebpf.maps().map(|(name, _)| name.to_owned()).collect();
        let table = |name: String| ebpf.take_map(&name).map(|map| (name, map));
        Self(names.into_iter().filter_map(table).collect())
    }

    /// A map.
    ///
    /// # Errors
    /// The program has none of this name.
    pub fn get(&mut self, name: &'static str) -> Result<&mut Map, XdpError> {
        self.0.get_mut(name).ok_or_else(|| missing(name))
    }
}

fn missing(name: &'static str) -> XdpError {
    XdpError::Table(name, MapError::InvalidName { name: name.to_owned() }.into())
}

/// The interface that a program is attached to.
#[derive(Clone, Copy, Debug)]
pub struct Device<'n> {
    /// Its name, for errors.
    pub name: &'n str,
    /// Its number.
    pub index: u32,
}

/// A program with its maps, attached by a link: it is detached when this value is dropped, and when
/// the process ends in any way. Or a component of a dispatcher, which remains if the process cannot
/// remove it.
pub struct AttachedProgram {
    /// Its maps.
    pub tables: ProgramMaps,
    mode: AttachMode,
    _link: Option<FdLink>,
    place: Option<DispatcherSlot>,
}

impl fmt::Debug for AttachedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl AttachedProgram {
    /// Loads the program `dunlin` of an object, or `dunlin_whole` if the kernel refuses the other
    /// one; fills its maps, and attaches it, by the driver if possible. With a run priority, it
    /// joins a dispatcher of libxdp if there is one; it must then support multi-buffer packets.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn new(
        mut loader: EbpfLoader<'_>,
        object: &[u8],
        device: &Device<'_>,
        priority: Option<u32>,
        fill: impl Fn(&mut ProgramMaps) -> Result<(), XdpError>,
    ) -> Result<Self, XdpError> {
        let mut ebpf = loader.load(object).map_err(unread)?;
        let mut tables = ProgramMaps::take(&mut ebpf);
        fill(&mut tables)?;
        let xdp = load(&mut ebpf)?;
        let (mode, link) = match attach(xdp, device, XdpMode::Driver) {
            Ok(link) => (AttachMode::Native, link),
            Err(busy @ XdpError::Busy(_)) => {
                let Some(priority) = priority else { return Err(busy) };
                return Self::join(loader, object, device, priority, fill);
            }
            Err(error @ XdpError::NoLink) => return Err(error),
            Err(_) => (AttachMode::Generic, attach(xdp, device, XdpMode::Skb)?),
        };
        Ok(Self { tables, mode, _link: Some(link), place: None })
    }

    fn join(
        mut loader: EbpfLoader<'_>,
        object: &[u8],
        device: &Device<'_>,
        priority: u32,
        fill: impl Fn(&mut ProgramMaps) -> Result<(), XdpError>,
    ) -> Result<Self, XdpError> {
        let mut ebpf = loader.extension(COMPONENT).load(object).map_err(unread)?;
        let mut tables = ProgramMaps::take(&mut ebpf);
        fill(&mut tables)?;
        let component = program(&mut ebpf, COMPONENT)?.try_into().map_err(unloaded)?;
        let name = || device.name.to_owned();
        match DispatcherSlot::take(device.index, priority, component) {
            Ok(Some((place, mode))) => Ok(Self { tables, mode, _link: None, place: Some(place) }),
            Ok(None) => Err(XdpError::Busy(name())),
            Err(error) => Err(XdpError::Dispatcher(name(), error)),
        }
    }

    /// Whether it is a component of a dispatcher.
    pub fn is_joined(&self) -> bool {
        self.place.is_some()
    }

    /// Leaves the dispatcher, if it is a component of one.
    ///
    /// # Errors
    /// It stays there.
    pub fn leave(&mut self) -> Result<(), XdpError> {
        self.place.take().map_or(Ok(()), DispatcherSlot::leave).map_err(XdpError::Stays)
    }

    /// Whether it is still attached. Others can change that in a dispatcher.
    pub fn is_there(&self) -> bool {
        self.place.as_ref().is_none_or(DispatcherSlot::is_there)
    }

    /// Where it runs.
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// The first counters of its map `counts`, summed over CPUs.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counts<const N: usize>(&self) -> Result<[u64; N], XdpError> {
        let table = |error: MapError| XdpError::Table("counts", error.into());
        let map = self.tables.0.get("counts").ok_or_else(|| missing("counts"))?;
        let counts = PerCpuArray::<&MapData, u64>::try_from(map).map_err(table)?;
        let mut sums = [0; N];
        for (index, sum) in (0..).zip(&mut sums) {
            *sum = counts.get(&index, 0).map_err(table)?.iter().sum();
        }
        Ok(sums)
    }
}

impl Drop for AttachedProgram {
    fn drop(&mut self) {
        // A caller that needs the error has called it before.
        let _ = self.leave();
    }
}

/// Loads the first program that the kernel accepts.
fn load(ebpf: &mut Ebpf) -> Result<&mut Xdp, XdpError> {
    let load = |ebpf: &mut Ebpf, name| xdp(ebpf, name)?.load().map_err(unloaded);
    match load(ebpf, "dunlin") {
        Err(_) if ebpf.program(WHOLE).is_some() => {
            load(ebpf, WHOLE)?;
            xdp(ebpf, WHOLE)
        }
        loaded => loaded.and_then(|()| xdp(ebpf, "dunlin")),
    }
}

fn xdp<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Xdp, XdpError> {
    program(ebpf, name)?.try_into().map_err(unloaded)
}

fn program<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Program, XdpError> {
    ebpf.program_mut(name).ok_or_else(|| XdpError::Load("no program".into()))
}

fn unread(error: EbpfError) -> XdpError {
    XdpError::Load(error.into())
}

fn unloaded(error: ProgramError) -> XdpError {
    XdpError::Load(error.into())
}

fn attach(xdp: &mut Xdp, device: &Device<'_>, mode: XdpMode) -> Result<FdLink, XdpError> {
    let failed = |error: ProgramError| match busy(&error) {
        true => XdpError::Busy(device.name.to_owned()),
        false => XdpError::Attach(error.into()),
    };
    let id = xdp.attach_to_if_index(device.index, mode).map_err(failed)?;
    let link = xdp.take_link(id).map_err(failed)?;
    // Without a link it was attached the old way, and is detached again here.
    link.try_into().map_err(|_| XdpError::NoLink)
}

/// Whether the kernel refused because another program is attached.
fn busy(error: &ProgramError) -> bool {
    let mut source: Option<&dyn Error> = Some(error);
    while let Some(error) = source {
        let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if matches!(code, Some(libc::EBUSY | libc::EEXIST)) {
            return true;
        }
        source = error.source();
    }
    false
}
