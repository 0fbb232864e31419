//! A plugin's side of the protocol.
use crate::NriError;
use crate::limits::{CONTAINERS_MAX, OPEN_MAX};
use crate::messages::{
    Adjustment, Answer, Call, ConfigureRequest, ConfigureResponse, Container, CreateResponse,
    LifecycleRequest, LinuxAdjustment, LinuxCpu, LinuxResources, LinuxUpdate, Pod, PodRequest,
    RegisterRequest, Status, SynchronizeRequest, SynchronizeResponse, Update, UpdateResponse,
};
use crate::trunk::{Decoder, Message, PLUGIN, REQUEST, RESPONSE, RUNTIME, encode};
use prost::Message as _;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a runtime may take to read an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A read waits so long at least: the kernel takes no time of 0 for it.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The events that a plugin is called for, as the runtime numbers them: pods that run, stop and are
/// removed; containers that are created, started, updated, stopped and removed.
const EVENTS: [i32; 8] = [1, 2, 3, 4, 6, 8, 10, 11];

/// `UNIMPLEMENTED` of gRPC.
const UNIMPLEMENTED: i32 = 12;

/// Names a call until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId(u32);

/// The runtime at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// `containerd` or `cri-o`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// It drops a plugin that takes longer to answer.
    pub request_timeout: Duration,
}

/// What the runtime calls a plugin for. It waits until [`Plugin::answer`].
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// All pods and containers, once after registration.
    Synchronize(Vec<Pod>, Vec<Container>),
    /// A pod runs.
    RunPod(Pod),
    /// A pod ends.
    StopPod(Pod),
    /// A pod is removed.
    RemovePod(Pod),
    /// A container is about to be created; its control group is not there yet.
    Create(Pod, Container),
    /// A container is created and about to start.
    Start(Pod, Container),
    /// Resources of a container are about to be changed.
    Update(Pod, Container, LinuxResources),
    /// A container ends, or has ended.
    Stop(Pod, Container),
    /// A container is removed.
    Remove(Pod, Container),
}

/// A registered plugin.
pub struct Plugin {
    stream: UnixStream,
    decoder: Decoder,
    runtime: Runtime,
    /// What of a synchronization has arrived.
    pods: Vec<Pod>,
    containers: Vec<Container>,
    /// Calls that wait for an answer, with what the answer depends on.
    open: Vec<(CallId, Request)>,
}

impl Plugin {
    /// Connects and asks to be registered. Runtimes call plugins by `index`, two digits, lowest
    /// first.
    ///
    /// # Errors
    /// There is no such socket, or it cannot be written to.
    pub fn connect(path: &Path, name: &str, index: &str) -> Result<Self, NriError> {
        let connected = UnixStream::connect(path);
        let stream = connected.map_err(|error| NriError::Connect(path.to_owned(), error))?;
        Self::register(stream, name, index)
    }

    /// Asks to be registered over a connected socket.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn register(stream: UnixStream, name: &str, index: &str) -> Result<Self, NriError> {
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let mut plugin = Self {
            stream,
            decoder: Decoder::default(),
            runtime: Runtime::default(),
            pods: Vec::new(),
            containers: Vec::new(),
            open: Vec::new(),
        };
        let register = RegisterRequest { name: name.to_owned(), index: index.to_owned() };
        let call = Call {
            service: "nri.pkg.api.v1alpha1.Runtime".into(),
            method: "RegisterPlugin".into(),
            payload: register.encode_to_vec(),
        };
        plugin.send(RUNTIME, 1, REQUEST, call.encode_to_vec())?;
        Ok(plugin)
    }

    /// The runtime, once it has configured the plugin.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The socket, to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The next call; `None` where there is none within `wait`. The socket is read once at least,
    /// so that a caller that is late is not deaf.
    ///
    /// # Errors
    /// The connection ended, the runtime refused the plugin, or what it sends is not understood.
    pub fn next(&mut self, wait: Duration) -> Result<Option<(CallId, Request)>, NriError> {
        let begin = Instant::now();
        let mut least = LEAST_WAIT;
        loop {
            while let Some(message) = self.decoder.next()? {
                if let Some(request) = self.receive(message)? {
                    return Ok(Some(request));
                }
            }
            let left = wait.saturating_sub(begin.elapsed()).max(least);
            if left.is_zero() {
                return Ok(None);
            }
            least = Duration::ZERO;
            self.stream.set_read_timeout(Some(left))?;
            let mut bytes = [0; 16 * 1_024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(NriError::Closed),
                Ok(length) => self.decoder.push(&bytes[..length]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => return Err(NriError::Closed),
                    _ => return Err(error.into()),
                },
            }
        }
    }

    /// Answers a call. `cpu` is what changes of the container that is created or updated; other
    /// calls need `None`.
    ///
    /// # Errors
    /// The connection ended.
    pub fn answer(&mut self, call: CallId, cpu: Option<LinuxCpu>) -> Result<(), NriError> {
        let Some(at) = self.open.iter().position(|(open, _)| *open == call) else { return Ok(()) };
        let (_, request) = self.open.swap_remove(at);
        let resources = cpu.map(|cpu| LinuxResources { cpu: Some(cpu) });
        let payload = match (request, resources) {
            (Request::Create(..), Some(resources)) => {
                let linux = Some(LinuxAdjustment { resources: Some(resources) });
                CreateResponse { adjust: Some(Adjustment { linux }) }.encode_to_vec()
            }
            (Request::Update(_, container, _), Some(resources)) => {
                let linux = Some(LinuxUpdate { resources: Some(resources) });
                let update = vec![Update { container_id: container.id, linux }];
                UpdateResponse { update }.encode_to_vec()
            }
            _ => Vec::new(),
        };
        self.reply(call.0, payload)
    }

    fn receive(&mut self, message: Message) -> Result<Option<(CallId, Request)>, NriError> {
        match (message.connection, message.kind) {
            (RUNTIME, RESPONSE) => {
                let answer = Answer::decode(&message.body[..])?;
                match answer.status {
                    Some(status) if status.code != 0 => Err(NriError::Refused(status.message)),
                    _ => Ok(None),
                }
            }
            (PLUGIN, REQUEST) => {
                let call = Call::decode(&message.body[..])?;
                let request = self.understand(message.stream, &call)?;
                if self.open.len() >= OPEN_MAX {
                    return Err(NriError::Malformed("many calls at once".into()));
                }
                if let Some(request) = &request {
                    self.open.push((CallId(message.stream), request.clone()));
                }
                Ok(request.map(|request| (CallId(message.stream), request)))
            }
            _ => Ok(None),
        }
    }

    /// What a call is about; `None`: it is answered already.
    fn understand(&mut self, stream: u32, call: &Call) -> Result<Option<Request>, NriError> {
        let payload = &call.payload[..];
        let pod = || Ok::<_, NriError>(PodRequest::decode(payload)?.pod.unwrap_or_default());
        let both = || {
            let request = LifecycleRequest::decode(payload)?;
            let (pod, container) = (request.pod, request.container);
            Ok::<_, NriError>((
                pod.unwrap_or_default(),
                container.unwrap_or_default(),
                request.resources.unwrap_or_default(),
            ))
        };
        let container = |make: fn(Pod, Container) -> Request| {
            both().map(|(pod, container, _)| Some(make(pod, container)))
        };
        match call.method.as_str() {
            "Configure" => self.configure(stream, payload).map(|()| None),
            "Synchronize" => self.synchronize(stream, payload),
            "RunPodSandbox" => Ok(Some(Request::RunPod(pod()?))),
            "StopPodSandbox" => Ok(Some(Request::StopPod(pod()?))),
            "RemovePodSandbox" => Ok(Some(Request::RemovePod(pod()?))),
            "CreateContainer" => container(Request::Create),
            "StartContainer" => container(Request::Start),
            "UpdateContainer" => {
                let (pod, container, resources) = both()?;
                Ok(Some(Request::Update(pod, container, resources)))
            }
            "StopContainer" => container(Request::Stop),
            "RemoveContainer" => container(Request::Remove),
            // What is only told, of no use here.
            "Shutdown" | "StateChange" => self.reply(stream, Vec::new()).map(|()| None),
            method => {
                let message = format!("no method {method}");
                let status = Some(Status { code: UNIMPLEMENTED, message });
                let answer = Answer { status, payload: Vec::new() };
                self.send(PLUGIN, stream, RESPONSE, answer.encode_to_vec()).map(|()| None)
            }
        }
    }

    fn configure(&mut self, stream: u32, payload: &[u8]) -> Result<(), NriError> {
        let request = ConfigureRequest::decode(payload)?;
        let milliseconds = u64::try_from(request.request_timeout_ms).unwrap_or(0);
        self.runtime = Runtime {
            name: request.runtime_name,
            version: request.runtime_version,
            request_timeout: Duration::from_millis(milliseconds),
        };
        let events = EVENTS.iter().map(|event| 1 << (event - 1)).sum();
        self.reply(stream, ConfigureResponse { events }.encode_to_vec())
    }

    /// A runtime with many containers sends them in parts.
    fn synchronize(&mut self, stream: u32, payload: &[u8]) -> Result<Option<Request>, NriError> {
        let request = SynchronizeRequest::decode(payload)?;
        self.pods.extend(request.pods);
        self.containers.extend(request.containers);
        if self.pods.len().max(self.containers.len()) > CONTAINERS_MAX {
            return Err(NriError::TooMany);
        }
        if request.more {
            self.reply(stream, SynchronizeResponse { more: true }.encode_to_vec())?;
            return Ok(None);
        }
        let pods = std::mem::take(&mut self.pods);
        Ok(Some(Request::Synchronize(pods, std::mem::take(&mut self.containers))))
    }

    fn reply(&mut self, stream: u32, payload: Vec<u8>) -> Result<(), NriError> {
        let answer = Answer { status: None, payload };
        self.send(PLUGIN, stream, RESPONSE, answer.encode_to_vec())
    }

    fn send(
        &mut self,
        connection: u32,
        stream: u32,
        kind: u8,
        body: Vec<u8>,
    ) -> Result<(), NriError> {
        let bytes = encode(&Message { connection, stream, kind, body });
        match self.stream.write_all(&bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(NriError::Closed),
            written => Ok(written?),
        }
    }
}

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;
