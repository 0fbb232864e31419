//! Opens devices.

use crate::calls::RawDevice;
use crate::device::Device;
use crate::limits::MTU_MAX;
use crate::queue::DpdkQueue;
use crate::{
    DeviceAddress, DeviceInfo, DeviceView, DpdkError, Environment, HostInterface, Library,
    Selection,
};
use std::ffi::{CStr, CString};
use std::sync::Arc;

impl Environment {
    /// Opens a device with so many queues, and starts it. Frames for this host that are not in the
    /// selection are the kernel's; without an interface of the kernel they are dropped and counted.
    /// With one the device has its Ethernet address.
    ///
    /// # Errors
    /// The device cannot be opened, has fewer queues, or there is no memory for its buffers.
    pub fn open(
        &self,
        address: &DeviceAddress,
        queues: u16,
        selection: &Selection,
        host: Option<&Arc<HostInterface>>,
    ) -> Result<(Vec<DpdkQueue>, DeviceView), DpdkError> {
        let (address, name) = (address.clone(), address.name().to_owned());
        let mac = host.map(|host| host.mac()).unwrap_or_default();
        let raw = self.run(move |library| open(library, &address, queues, mac))?;
        let device = Arc::new(Device::new(self.clone(), raw.port));
        let driver = CStr::from_bytes_until_nul(&raw.driver).unwrap_or_default();
        let driver = driver.to_string_lossy().into_owned();
        let mtu = usize::from(raw.mtu).min(MTU_MAX);
        let selection = selection.clone().on(raw.mac);
        let ports: Vec<_> = (0..queues)
            .map(|queue| {
                let (device, selection) = (Arc::clone(&device), selection.clone());
                DpdkQueue::new(device, (queue, mtu), selection, host.cloned())
            })
            .collect();
        let has_interrupts = ports.iter().all(DpdkQueue::has_interrupts);
        let info = DeviceInfo { name, driver, mac: raw.mac, mtu, has_interrupts };
        let counts = ports.iter().map(|port| Arc::clone(port.counts())).collect();
        Ok((ports, DeviceView::new(info, device, counts)))
    }
}

fn open(
    library: Library,
    address: &DeviceAddress,
    queues: u16,
    mac: [u8; 6],
) -> Result<RawDevice, DpdkError> {
    let wrong = |why: String| DpdkError::Device(address.name().to_owned(), why);
    let text = |text: &str| CString::new(text).map_err(|_| wrong("a NUL in its name".to_owned()));
    let (name, arguments) = (text(address.name())?, text(address.arguments())?);
    let mut raw = RawDevice { mac, ..RawDevice::default() };
    // SAFETY: two texts that live longer than the call, which reads and writes one
    // structure.
    let status =
        unsafe { (library.calls().open)(name.as_ptr(), arguments.as_ptr(), queues, &raw mut raw) };
    if status == 0 {
        return Ok(raw);
    }
    let remedy = match raw.queues_max {
        most if most > 0 && most < queues => {
            format!(": set [server] workers = {most}, or give the device more queues")
        }
        _ => String::new(),
    };
    Err(wrong(library.problem() + &remedy))
}
