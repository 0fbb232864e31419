//! Rules of the sets of headless services: checks, and which clients an endpoint is for.
use super::{Compat, ServiceView, ServiceWriter, address_record, are_labels, name_of, srv_data};
use image::Location;
use std::collections::BTreeSet;
use wire::{NameBuf, Rtype};

impl ServiceWriter<'_, '_> {
    /// The name of the service gets a check.
    pub(super) fn check_addresses(&mut self, check: &str) {
        self.out.add_check(self.place, self.name.as_bytes(), check);
    }

    /// The names with the addresses of several endpoints get a check. Those of one endpoint, and
    /// SRV records, name it whatever its check says.
    pub(super) fn check(&mut self, view: ServiceView<'_>, check: &str) {
        self.check_addresses(check);
        if !self.naming.zonal {
            return;
        }
        let endpoints = view.slices.iter().flat_map(|slice| &slice.endpoints);
        let zones: BTreeSet<&str> = endpoints.filter_map(|one| one.zone.as_deref()).collect();
        let zones = zones.into_iter().filter(|zone| are_labels(zone));
        let each = zones.flat_map(|zone| [(zone, "pin"), (zone, "prefer")]);
        for (zone, directive) in each.chain([("*", "prefer")]) {
            if let Some(name) = name_of(&[zone, directive, "_zone"], self.name) {
                self.out.add_check(self.place, name.as_name().as_bytes(), check);
            }
        }
    }

    /// The sets with all endpoints get the locations of their clients. Names of one endpoint and
    /// of topology zones have what they name.
    pub(super) fn locate(&mut self, view: ServiceView<'_>) {
        let endpoints = || view.slices.iter().flat_map(|slice| &slice.endpoints);
        let path = |address| {
            let below = view.locations.get(address)?;
            let path = match &*self.naming.location {
                "" => below.to_string(),
                location => format!("{location}/{below}"),
            };
            Location::parse(&path).is_ok().then_some(path)
        };
        let paths: Option<Vec<String>> = endpoints().map(|one| path(&one.address)).collect();
        let Some(paths) = paths else { return };
        let mut paths = paths.iter();
        for slice in view.slices {
            let ports: Vec<(NameBuf, u16)> = slice
                .ports
                .iter()
                .filter_map(|port| Some((self.port(port, &[])?, port.number)))
                .collect();
            for (endpoint, path) in slice.endpoints.iter().zip(&mut paths) {
                let (rtype, data) = address_record(endpoint.address);
                self.out.locate(self.place, self.name.as_bytes(), rtype, &data, path);
                let Some(target) = self.endpoint_name(slice, endpoint) else { continue };
                let of_all = match self.naming.compat {
                    Compat::CoreDns => &slice.ports[..],
                    Compat::Specification => &[],
                };
                let of_all = of_all.iter().map(|port| (self.name, port.number));
                let owners = ports.iter().map(|(owner, port)| (owner.as_name(), *port));
                for (owner, port) in owners.chain(of_all) {
                    let (owner, data) = (owner.as_bytes(), srv_data(port, target.as_name()));
                    self.out.locate(self.place, owner, Rtype::SRV, &data, path);
                }
            }
        }
    }
}
