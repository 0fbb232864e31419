//! Starts the streams of the API server.
use super::events::{Event, IMPORTS, NAMESPACES, OBJECTS, PODS, SERVICES, SLICES};
use super::origin::tell_origin;
use super::{Settings, Worker};
use crate::client::{Access, Connection};
use crate::clients::{ClientWatch, Clients, POD_FIELDS};
use crate::names::Compat;
use crate::objects::{
    DnsEndpoints, EndpointNaming, Exports, Gateways, HttpRoutes, Imports, Ingresses, Namespaces,
    Pods, Services, Slices,
};
use crate::status::SharedStatus;
use crate::watch::{Selection, Sink, watch as watch_objects};
use kube_api::Api;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

/// What watches clients; `None`: they are not to be watched.
pub(super) fn client_watch(
    settings: &Settings,
    status: &SharedStatus,
    clients: watch::Sender<Arc<Clients>>,
) -> Option<ClientWatch> {
    let wanted = settings.clients.clone()?;
    status.edit(|status| status.is_without_clients = true);
    Some(ClientWatch {
        access: settings.access.clone(),
        settings: wanted,
        location: settings.naming.location.clone(),
        folder: settings.folder.clone(),
        bounds: settings.bounds,
        status: status.clone(),
        clients,
    })
}

/// The API server, for requests beside the streams.
pub(super) fn api(access: &Access) -> Api {
    Api::to(access.clone())
}

impl Worker {
    /// Starts the wanted streams of these; the last of them.
    pub(super) fn spawn(
        &self,
        tasks: &mut JoinSet<()>,
        sender: &mpsc::Sender<Event>,
        streams: &[usize],
    ) -> Option<AbortHandle> {
        let connection = Connection::new(self.settings.access.clone());
        let naming = EndpointNaming {
            pod_names: self.settings.pod_names,
            zonal: self.settings.naming.zonal,
            all_ports: self.settings.naming.compat == Compat::CoreDns,
            shared: self.settings.shared.as_ref().is_some_and(|shared| shared.zone.is_some()),
        };
        let labels = self.settings.labels.clone();
        let bounds = self.settings.bounds;
        let of = |labels, fields| Selection { labels, fields, naming, bounds };
        if let Some(map) = self.map.clone().filter(|_| streams.contains(&NAMESPACES)) {
            let again = Arc::clone(&self.asks_origin);
            tasks.spawn(tell_origin(connection.clone(), self.settings.bounds, map, again));
        }
        let mut last = None;
        for at in streams.iter().filter(|at| self.streams[**at].is_wanted) {
            let connection = connection.clone();
            let labels = labels.clone();
            macro_rules! start {
                ($kind:ident, $event:ident, $selection:expr) => {{
                    let sink = Sink { sender: sender.clone(), wrap: Event::$event };
                    let selection = $selection;
                    tasks.spawn(async move {
                        watch_objects::<$kind, Event>(connection, selection, sink).await;
                    })
                }};
            }
            last = Some(match *at {
                NAMESPACES => {
                    let labels = self.settings.namespace_labels.clone();
                    start!(Namespaces, Namespace, of(labels, ""))
                }
                SERVICES => start!(Services, Service, of(labels, "")),
                IMPORTS => start!(Imports, Import, of(String::new(), "")),
                SLICES => start!(Slices, Slice, of(labels, "")),
                PODS => start!(Pods, Pod, of(labels, POD_FIELDS)),
                at => match at - OBJECTS {
                    0 => start!(DnsEndpoints, DnsEndpoint, of(String::new(), "")),
                    1 => start!(Ingresses, Ingress, of(String::new(), "")),
                    2 => start!(Gateways, Gateway, of(String::new(), "")),
                    3 => start!(HttpRoutes, HttpRoute, of(String::new(), "")),
                    _ => start!(Exports, Export, of(String::new(), "")),
                },
            });
        }
        last
    }
}
