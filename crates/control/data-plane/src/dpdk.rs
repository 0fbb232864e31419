//! Devices that DPDK serves, beside the sockets. Worker n has queue n of each device.
use config::{Config, Dpdk, PollSleep, PortKind};
use port::Udp;
use port_dpdk::{
    DeviceAddress, DeviceView, DpdkError, DpdkQueue, Environment, EnvironmentOptions,
    HostInterface, Library, Selection,
};
use server_status::{DpdkDeviceStatus, DpdkQueueStatus, DpdkStatus};
use std::net::SocketAddr;
use std::sync::Arc;

/// The port of a queue.
pub type DpdkPort = Udp<DpdkQueue>;

/// The devices, and why those that are not served are not.
#[derive(Debug, Default)]
pub struct DpdkDevices {
    /// `None`: no device is configured.
    wanted: Option<Dpdk>,
    /// The interfaces of the kernel, in the order of the devices.
    hosts: Vec<Option<Arc<HostInterface>>>,
    /// Stays until the process ends, as DPDK does.
    environment: Option<Environment>,
    devices: Vec<(String, Result<DeviceView, String>)>,
    failed: Option<String>,
}

/// What this machine lacks for the devices of a config: the library, huge pages, drivers.
pub fn check(config: &Config) -> Vec<String> {
    if config.server.port != PortKind::Dpdk {
        return Vec::new();
    }
    let dpdk = &config.dpdk;
    let library = Library::open(&dpdk.library).err();
    let missing = port_dpdk::check(&dpdk.devices, huge_memory(dpdk));
    let wrong = library.into_iter().chain(missing);
    wrong.map(|error| format!("[server] port = \"dpdk\": {error}")).collect()
}

/// Bytes that it needs in huge pages.
fn huge_memory(dpdk: &Dpdk) -> u64 {
    if dpdk.huge_pages { dpdk.memory } else { 0 }
}

impl DpdkDevices {
    /// The devices of a config, none of which is opened. The interfaces of the kernel are, while
    /// the process may make them.
    ///
    /// # Errors
    /// An interface cannot be made.
    pub fn new(config: &Config) -> Result<Self, DpdkError> {
        if config.server.port != PortKind::Dpdk {
            return Ok(Self::default());
        }
        let dpdk = config.dpdk.clone();
        let host = |name: &String| match name.is_empty() {
            true => Ok(None),
            false => HostInterface::open(name).map(|host| Some(Arc::new(host))),
        };
        let hosts = dpdk.interfaces.iter().map(host).collect::<Result<_, _>>()?;
        Ok(Self { hosts, wanted: Some(dpdk), ..Self::default() })
    }

    /// Whether devices are configured.
    pub fn is_configured(&self) -> bool {
        self.wanted.is_some()
    }

    /// Starts DPDK, and opens the devices. Returns the queues of each worker. If it does not start,
    /// sockets serve alone; a device that fails leaves the others.
    pub fn open(&mut self, workers: usize, listen: &[SocketAddr]) -> Vec<Vec<DpdkPort>> {
        let mut ports: Vec<Vec<DpdkPort>> = (0..workers).map(|_| Vec::new()).collect();
        let Some(dpdk) = &self.wanted else { return ports };
        if let Err(error) = start(dpdk).map(|started| self.environment = Some(started)) {
            self.fail(&error);
            return ports;
        }
        let Some((dpdk, environment)) = self.wanted.as_ref().zip(self.environment.as_ref()) else {
            return ports;
        };
        let selection = Selection::new(listen);
        for (nth, address) in dpdk.devices.iter().enumerate() {
            let host = self.hosts.get(nth).and_then(Option::as_ref);
            let opened =
                open(environment, address, workers, (&selection, host)).map(|(queues, view)| {
                    for (ports, queue) in ports.iter_mut().zip(queues) {
                        ports.push(Udp::new(match dpdk.sleep {
                            PollSleep::Adaptive => queue,
                            PollSleep::Never => queue.without_pauses(),
                        }));
                    }
                    view
                });
            let name = address.name().to_owned();
            match &opened {
                Ok(DeviceView { info, .. }) => {
                    let (mac, mtu, driver) = (text(info.mac), info.mtu, info.driver.as_str());
                    tracing::info!(
                        device = name,
                        driver,
                        mac,
                        mtu,
                        queues = workers,
                        "DPDK serves"
                    );
                }
                Err(error) => tracing::warn!("[dpdk] a device is not served: {error}"),
            }
            self.devices.push((name, opened.map_err(|error| error.to_string())));
        }
        ports
    }

    /// Only sockets serve, for this reason.
    pub fn fail(&mut self, error: &dyn std::fmt::Display) {
        tracing::warn!("[dpdk] only sockets serve: {error}");
        self.devices.clear();
        self.failed = Some(error.to_string());
    }

    /// Stops to observe the devices, which stop with the last of their queues.
    pub fn end(&mut self) {
        self.devices.clear();
    }

    /// The status; `None`: no device is configured.
    pub fn status(&self) -> Option<DpdkStatus> {
        self.wanted.as_ref()?;
        let environment = self.environment.as_ref();
        let release = environment.map(|started| started.library().release()).unwrap_or_default();
        let devices = self.devices.iter().map(|(name, opened)| match opened {
            Ok(view) => status(name, view),
            Err(why) => {
                let (name, failed) = (name.clone(), Some(why.clone()));
                DpdkDeviceStatus { name, failed, ..DpdkDeviceStatus::default() }
            }
        });
        let failed = self.failed.clone();
        Some(DpdkStatus { release, failed, devices: devices.collect() })
    }
}

fn start(dpdk: &Dpdk) -> Result<Environment, DpdkError> {
    let library = Library::open(&dpdk.library)?;
    if let Some(missing) = port_dpdk::check(&[], huge_memory(dpdk)).pop() {
        return Err(missing);
    }
    let options = EnvironmentOptions {
        prefix: format!("dunlin-{}", std::process::id()),
        huge_pages: dpdk.huge_pages,
        memory: dpdk.memory,
        cpus: cpu::allowed().unwrap_or_default().to_string(),
        devices: dpdk.devices.clone(),
    };
    Environment::start(library, &options)
}

fn open(
    environment: &Environment,
    address: &DeviceAddress,
    workers: usize,
    (selection, host): (&Selection, Option<&Arc<HostInterface>>),
) -> Result<(Vec<DpdkQueue>, DeviceView), DpdkError> {
    if let Some(missing) = port_dpdk::check(std::slice::from_ref(address), 0).pop() {
        return Err(missing);
    }
    environment.open(address, workers as u16, selection, host)
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn status(name: &str, view: &DeviceView) -> DpdkDeviceStatus {
    let counts = view.counts();
    let sum = |count: fn(&port_dpdk::QueueCounts) -> u64| -> u64 {
        view.queues().iter().map(|queue| count(queue)).sum()
    };
    let lost = [
        ("missed", counts.missed),
        ("errors", counts.errors),
        ("no_buffer", counts.no_buffer),
        ("send_errors", counts.send_errors),
        ("segmented", counts.segmented),
        ("refused", sum(|queue| queue.refused())),
        ("foreign", sum(|queue| queue.foreign())),
        ("other", sum(|queue| queue.other())),
        ("host_full", sum(|queue| queue.host_full())),
    ];
    let queues = view.queues().iter().map(|queue| {
        let (polls, empty_polls) = queue.polls();
        DpdkQueueStatus { polls, empty_polls, waits: queue.waits() }
    });
    DpdkDeviceStatus {
        name: name.to_owned(),
        failed: None,
        driver: view.info.driver.clone(),
        mac: text(view.info.mac),
        mtu: view.info.mtu,
        up: counts.is_up,
        gone: counts.is_gone,
        received: counts.received,
        sent: counts.sent,
        lost: lost.map(|(name, count)| (name.to_owned(), count)).into(),
        to_host: sum(|queue| queue.host().0),
        from_host: sum(|queue| queue.host().1),
        interrupts: view.info.has_interrupts,
        buffers: counts.buffers.into(),
        buffers_free: counts.buffers_free.into(),
        queues: queues.collect(),
    }
}
