//! `dunlin serve`: everything is opened, started and wired together here, and stopped again.
use crate::app::{Answerer, Decided};
use crate::config::{Config, PortKind, Server};
use crate::report::{self, Counted};
use crate::sockets::{self, Listening, Sockets};
use crate::zones::{self, Zones};
use crate::{cli, log, privileges, workers};
use answer::CookieSecret;
use control::{Control, Running};
use plane::{Fleet, OnFailure, Seat, StreamLimits, Streams};
use port_socket::SocketPort;
use rustix::thread::CapabilitySet;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// What everything here may fail with: a sentence for the operator.
type Anyhow<T> = Result<T, Box<dyn Error>>;

/// Runs the server until it is told to end.
///
/// # Errors
/// When it cannot start, or a thread of it ended by itself.
pub fn run(command: &cli::Serve) -> Anyhow<ExitCode> {
    let config = match Config::load(command.config.as_deref()) {
        Ok(config) => config,
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    log::start(&config.log);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> Anyhow<ExitCode> {
    let mut signals = Signals::new()?;
    let places = workers::place(&config.server)?;
    sockets::raise_file_limit();
    let listening = Sockets::default().open(&config.server.listen, places.len())?;
    // Before any thread starts: each has its capabilities from the one that starts it.
    let Server { user, group, .. } = &config.server;
    privileges::drop_to(user, group, CapabilitySet::empty())?;
    let (control, running) =
        Control::start(zones::first_image(&config.zones, config.server.local_zones)?)?;
    let Server { local_zones, data_dir, .. } = &config.server;
    let (mut zones, wished) =
        Zones::start(&control, &config.zones, *local_zones, data_dir.as_deref())?;
    tokio::select! {
        _ = zones.granted(wished) => {}
        () = signals.end() => return Ok(ExitCode::SUCCESS),
    }
    let (failed, mut failure) = mpsc::unbounded_channel();
    let on_failure: OnFailure = Arc::new(move |failure| {
        // Nobody listens any more once the server ends.
        let _ = failed.send(failure);
    });
    let plane = Plane::start(&config, &control, places, listening, on_failure)?;
    loop {
        tokio::select! {
            told = signals.next() => match told {
                Told::End => break,
                Told::Reload => drop(zones.load_all()),
                Told::Report => report::log(&plane.counted),
            },
            Some(failure) = failure.recv() => return Err(failure.into()),
        }
    }
    tracing::info!(
        "ending: what has been received is answered first; a second signal ends at once"
    );
    let stopped = tokio::task::spawn_blocking(move || {
        zones.stop();
        plane.stop(running);
    });
    tokio::select! {
        done = stopped => done?,
        () = signals.end() => std::process::exit(1),
    }
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

/// What this process is told from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    End,
    Reload,
    Report,
}

/// The signals it is told by.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reload: Signal,
    report: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reload: signal(SignalKind::hangup())?,
            report: signal(SignalKind::user_defined1())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::End,
            _ = self.interrupt.recv() => Told::End,
            _ = self.reload.recv() => Told::Reload,
            _ = self.report.recv() => Told::Report,
        }
    }

    /// Waits for the signal to end, whatever else comes before.
    async fn end(&mut self) {
        while self.next().await != Told::End {}
    }
}

/// The running workers and streams.
struct Plane {
    fleet: Fleet,
    streams: Streams,
    counted: Vec<Counted>,
}

impl Plane {
    fn start(
        config: &Config,
        control: &Control,
        places: workers::Places,
        listening: Vec<Listening>,
        on_failure: OnFailure,
    ) -> Anyhow<Self> {
        let server = &config.server;
        let steered = workers::steer(server.steering, &places, &listening);
        let decided = Arc::new(decide(server)?);
        let answerer = || -> Anyhow<Answerer> {
            Ok(Answerer::new(control.reader()?, Arc::clone(&decided), getrandom::u64()?))
        };
        let addresses: Vec<_> = listening.iter().map(|listening| listening.address).collect();
        let mut listeners = Vec::new();
        let mut ports: Vec<Vec<SocketPort>> = places.iter().map(|_| Vec::new()).collect();
        for Listening { streams, datagrams, .. } in listening {
            listeners.push(streams);
            for (n, socket) in datagrams.into_iter().enumerate() {
                let ports = &mut ports[n % places.len()];
                match server.port {
                    PortKind::Socket => ports.push(SocketPort::new(socket)?),
                }
            }
        }
        let mut answers = Vec::new();
        let mut seats = Vec::new();
        for (ports, cpu) in ports.into_iter().zip(&places) {
            let app = answerer()?;
            answers.push(app.counters());
            seats.push(Seat { ports, app, cpu: *cpu });
        }
        let fleet = Fleet::start(seats, Arc::clone(&on_failure))?;
        let app = answerer()?;
        answers.push(app.counters());
        let limits = StreamLimits::default();
        let nobody = Arc::new(|_| false);
        let streams = Streams::start(listeners, vec![app], limits, nobody, on_failure)?;
        let names = (0..places.len()).map(|n| format!("worker-{n}")).chain(["streams-0".into()]);
        let plane = fleet.counters().iter().chain(streams.counters()).cloned();
        let counted = names
            .zip(plane.zip(answers))
            .map(|(name, (plane, answers))| Counted { name, plane, answers })
            .collect();
        let (workers, zones) = (places.len(), config.zones.len());
        let listen: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        tracing::info!(zones, workers, steered, listen = listen.join(" "), "serving");
        Ok(Self { fleet, streams, counted })
    }

    /// Stops receiving, answers what has been received, and ends.
    fn stop(self, running: Running) {
        self.fleet.stop();
        self.streams.stop();
        running.stop();
        report::log(&self.counted);
    }
}

/// What the config decides about answers.
fn decide(server: &Server) -> Result<Decided, getrandom::Error> {
    let mut cookie_secrets = Vec::new();
    if server.cookies.enabled {
        cookie_secrets.clone_from(&server.cookies.secrets);
        if cookie_secrets.is_empty() {
            let mut secret = [0; 16];
            getrandom::fill(&mut secret)?;
            cookie_secrets.push(CookieSecret(secret));
        }
    }
    Ok(Decided {
        udp_size_max: server.udp_size_max,
        cookie_secrets,
        nsid: server.nsid.clone(),
        version: server.version.clone(),
        id: server.id.clone(),
    })
}
