//! A program of the kernel's, attached to an interface.

use crate::dispatcher::{COMPONENT, Place};
use crate::interface::Interface;
use crate::limits::TARGETS_MAX;
use aya::maps::{Map, MapData, MapError, PerCpuArray};
use aya::programs::links::FdLink;
use aya::programs::{Program, ProgramError, Xdp, XdpMode};
use aya::{Ebpf, EbpfError, EbpfLoader};
use std::collections::HashMap;
use std::error::Error;
use std::{fmt, io};

/// Why an interface is not served past the kernel.
#[derive(Debug)]
pub enum XdpError {
    /// The interface is not there, or is not fit.
    Interface(io::Error),
    /// The kernel does not load the program.
    Load(Box<dyn Error + Send + Sync>),
    /// The kernel does not attach the program.
    Attach(Box<dyn Error + Send + Sync>),
    /// Something is attached there already.
    Busy(String),
    /// Something is attached there already, which was not joined.
    Dispatcher(String, Box<dyn Error + Send + Sync>),
    /// What runs in a dispatcher stays there.
    Stays(Box<dyn Error + Send + Sync>),
    /// What is attached would stay when this process ends.
    NoLink,
    /// A table of the program does not take an entry.
    Table(&'static str, MapError),
    /// More addresses and ports than the table holds.
    TooMany(usize),
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(error) => error.fmt(f),
            Self::Load(error) => write!(
                f,
                "the kernel does not load the XDP program: {}; it takes Linux 5.9, CAP_BPF and \
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
                 libxdp's dispatcher takes Linux 5.10, the BPF file system, and root or \
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
                "this kernel attaches XDP programs only so that they outlive the process: it takes \
                 Linux 5.9"
            ),
            Self::Table(name, error) => {
                write!(f, "the XDP program's table of {name}: {}", chain(error))
            }
            Self::TooMany(count) => write!(
                f,
                "{count} addresses are to be answered at, and {TARGETS_MAX} may be: list those of \
                 [server] listen one by one"
            ),
        }
    }
}

impl Error for XdpError {}

/// An error with all that it comes from.
fn chain(error: &dyn Error) -> String {
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

/// A program for kernels that know of no packets in several buffers (before Linux 5.18).
const WHOLE: &str = "dunlin_whole";

/// Who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The driver, before the kernel has made anything of a packet.
    Native,
    /// The kernel, where the driver cannot: it works, and gains less.
    Generic,
}

impl Mode {
    /// The name used in status and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// The tables of a program.
pub struct Tables(HashMap<String, Map>);

impl Tables {
    fn take(ebpf: &mut Ebpf) -> Self {
        let names: Vec<_> = ebpf.maps().map(|(name, _)| name.to_owned()).collect();
        let table = |name: String| ebpf.take_map(&name).map(|map| (name, map));
        Self(names.into_iter().filter_map(table).collect())
    }

    pub(crate) fn get(&mut self, name: &'static str) -> Result<&mut Map, XdpError> {
        self.0.get_mut(name).ok_or_else(|| missing(name))
    }
}

fn missing(name: &'static str) -> XdpError {
    XdpError::Table(name, MapError::InvalidName { name: name.to_owned() })
}

/// A program with its tables, attached by a link: it is gone with this value, and with the process
/// however that ends. Or a component of a dispatcher, which stays where the process cannot leave.
pub struct Attached {
    pub(crate) tables: Tables,
    mode: Mode,
    _link: Option<FdLink>,
    place: Option<Place>,
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Attached {
    /// Loads the program `dunlin` of an object, or `dunlin_whole` where there is one and the kernel
    /// does not take the other; has its tables filled, and attaches it: by the driver where that
    /// can, else by the kernel; or, where it has a run priority and a dispatcher of libxdp's is
    /// there, in that. It has to know of packets in several buffers then.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn new(
        mut loader: EbpfLoader<'_>,
        object: &[u8],
        interface: &Interface,
        priority: Option<u32>,
        fill: impl Fn(&mut Tables) -> Result<(), XdpError>,
    ) -> Result<Self, XdpError> {
        let mut ebpf = loader.load(object).map_err(unread)?;
        let mut tables = Tables::take(&mut ebpf);
        fill(&mut tables)?;
        let xdp = load(&mut ebpf)?;
        let (mode, link) = match attach(xdp, interface, XdpMode::Driver) {
            Ok(link) => (Mode::Native, link),
            Err(busy @ XdpError::Busy(_)) => {
                let Some(priority) = priority else { return Err(busy) };
                return Self::join(loader, object, interface, priority, fill);
            }
            Err(error @ XdpError::NoLink) => return Err(error),
            Err(_) => (Mode::Generic, attach(xdp, interface, XdpMode::Skb)?),
        };
        Ok(Self { tables, mode, _link: Some(link), place: None })
    }

    fn join(
        mut loader: EbpfLoader<'_>,
        object: &[u8],
        interface: &Interface,
        priority: u32,
        fill: impl Fn(&mut Tables) -> Result<(), XdpError>,
    ) -> Result<Self, XdpError> {
        let mut ebpf = loader.extension(COMPONENT).load(object).map_err(unread)?;
        let mut tables = Tables::take(&mut ebpf);
        fill(&mut tables)?;
        let component = program(&mut ebpf, COMPONENT)?.try_into().map_err(unloaded)?;
        let name = || interface.name.clone();
        match Place::take(interface.index, priority, component) {
            Ok(Some((place, mode))) => Ok(Self { tables, mode, _link: None, place: Some(place) }),
            Ok(None) => Err(XdpError::Busy(name())),
            Err(error) => Err(XdpError::Dispatcher(name(), error)),
        }
    }

    /// Whether it runs in a dispatcher, beside others.
    pub fn is_joined(&self) -> bool {
        self.place.is_some()
    }

    /// Leaves the dispatcher, where it runs in one.
    ///
    /// # Errors
    /// It stays there.
    pub fn leave(&mut self) -> Result<(), XdpError> {
        self.place.take().map_or(Ok(()), Place::leave).map_err(XdpError::Stays)
    }

    /// Whether it is still attached, which others can change where it is joined.
    pub fn is_there(&self) -> bool {
        self.place.as_ref().is_none_or(Place::is_there)
    }

    /// Who runs it.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The first counters of its table `counts`, all CPUs together.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn counts<const N: usize>(&self) -> Result<[u64; N], XdpError> {
        let table = |error| XdpError::Table("counts", error);
        let map = self.tables.0.get("counts").ok_or_else(|| missing("counts"))?;
        let counts = PerCpuArray::<&MapData, u64>::try_from(map).map_err(table)?;
        let mut sums = [0; N];
        for (index, sum) in (0..).zip(&mut sums) {
            *sum = counts.get(&index, 0).map_err(table)?.iter().sum();
        }
        Ok(sums)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Who wants to know why it stays has asked before.
        let _ = self.leave();
    }
}

/// Loads the first program that the kernel takes.
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

fn attach(xdp: &mut Xdp, interface: &Interface, mode: XdpMode) -> Result<FdLink, XdpError> {
    let failed = |error: ProgramError| match busy(&error) {
        true => XdpError::Busy(interface.name.clone()),
        false => XdpError::Attach(error.into()),
    };
    let id = xdp.attach_to_if_index(interface.index, mode).map_err(failed)?;
    let link = xdp.take_link(id).map_err(failed)?;
    // What has no link of its own was attached the old way, and is detached again here.
    link.try_into().map_err(|_| XdpError::NoLink)
}

/// Whether the kernel refused since something else is attached.
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
