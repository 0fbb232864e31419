//! `dunlin top`: shows live rates of a running server.
mod json;
mod lines;
mod rates;
mod screen;

use crate::cli::{self, Output};
use crate::local::LocalClient;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rates::RateMeter;
use screen::Screen;
use server_status::Status;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

enum Event {
    /// A status of the server, or why there is none, and the time of the request.
    Sample(Result<Box<Status>, String>, Instant),
    Key(KeyEvent),
    /// The terminal changed its size.
    Redraw,
    /// A signal arrived, or the terminal is closed.
    End,
}

/// Requests the status of the server.
type FetchStatus = Box<dyn FnMut() -> Result<Status, String> + Send>;

/// Shows the server until the user presses `q`, a signal arrives, or the reader closes the pipe.
///
/// # Errors
/// The server cannot be reached at first, or the terminal cannot be used.
pub fn run(command: &cli::Top) -> Result<ExitCode, Box<dyn Error>> {
    let client = LocalClient::new(&command.local)?;
    let mut fetch: FetchStatus =
        Box::new(move || client.status().map_err(|error| error.to_string()));
    // Before the screen is cleared, so that an error stays visible.
    let first = (fetch()?, Instant::now());
    let is_text = command.output == Output::Text;
    if is_text && io::stdout().is_terminal() && io::stdin().is_terminal() && is_capable() {
        let (sender, events) = sync_channel(1);
        start_signals(sender.clone())?;
        start_sampling(fetch, command.interval, sender.clone())?;
        // From here on, a panic of any thread restores the terminal before it prints its message.
        let mut terminal = ratatui::try_init()?;
        let shown = start_keys(sender).and_then(|()| show(&mut terminal, &events, first));
        ratatui::restore();
        shown?;
    } else {
        write_lines(&mut io::stdout().lock(), fetch, command, first)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the terminal can be drawn on. A dumb one gets lines.
fn is_capable() -> bool {
    !std::env::var("TERM").is_ok_and(|name| name == "dumb")
}

/// Starts a thread that sends a status each interval.
fn start_sampling(
    mut fetch: FetchStatus,
    interval: Duration,
    sender: SyncSender<Event>,
) -> io::Result<()> {
    let sample = move || {
        loop {
            thread::sleep(interval);
            let status = fetch().map(Box::new);
            if sender.send(Event::Sample(status, Instant::now())).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("sampling".into()).spawn(sample).map(drop)
}

fn start_keys(sender: SyncSender<Event>) -> io::Result<()> {
    let keys = move || {
        loop {
            let event = match event::read() {
                Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
                Ok(_) => Event::Redraw,
                Err(_) => Event::End,
            };
            let ends = matches!(event, Event::End);
            if sender.send(event).is_err() || ends {
                return;
            }
        }
    };
    thread::Builder::new().name("keys".into()).spawn(keys).map(drop)
}

/// Starts a thread that turns the signals that end a process into [`Event::End`].
fn start_signals(sender: SyncSender<Event>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signals = {
        let _inside = runtime.enter();
        let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
        let [terminate, hangup, interrupt] = kinds.map(signal);
        (terminate?, hangup?, interrupt?)
    };
    let waiting = move || {
        let (mut terminate, mut hangup, mut interrupt) = signals;
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        // The receiver is gone if the program ends anyway.
        let _ = sender.send(Event::End);
    };
    thread::Builder::new().name("signals".into()).spawn(waiting).map(drop)
}

fn show(
    terminal: &mut DefaultTerminal,
    events: &Receiver<Event>,
    first: (Status, Instant),
) -> io::Result<()> {
    let mut meter = RateMeter::default();
    let mut screen = Screen::default();
    screen.update(first.0.clone(), None);
    meter.update(first.0, first.1);
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        let continues = events.recv().is_ok_and(|event| handle(&mut screen, &mut meter, event));
        if !continues {
            return Ok(());
        }
    }
}

/// Handles an event. Returns whether to continue.
fn handle(screen: &mut Screen, meter: &mut RateMeter, event: Event) -> bool {
    match event {
        Event::Sample(Ok(status), at) => {
            // Samples continue during a pause, so that the first rate after it is not a mean.
            let rates = meter.update(*status, at);
            if let Some(status) = meter.last().filter(|_| !screen.paused) {
                screen.update(status.clone(), rates);
            }
        }
        Event::Sample(Err(why), _) => screen.error = Some(why),
        Event::Redraw => {}
        Event::End => return false,
        Event::Key(key) => match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            // In raw mode, Ctrl-C sends no signal.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('p' | ' ') => screen.paused = !screen.paused,
            KeyCode::Up => screen.scroll = screen.scroll.saturating_sub(1),
            KeyCode::Down => screen.scroll = screen.scroll.saturating_add(1),
            KeyCode::PageUp => screen.scroll = screen.scroll.saturating_sub(10),
            KeyCode::PageDown => screen.scroll = screen.scroll.saturating_add(10),
            KeyCode::Home => screen.scroll = 0,
            KeyCode::End => screen.scroll = usize::MAX,
            _ => {}
        },
    }
    true
}

/// Writes one line per interval, until the reader closes the pipe.
fn write_lines(
    out: &mut impl Write,
    mut fetch: FetchStatus,
    command: &cli::Top,
    first: (Status, Instant),
) -> io::Result<()> {
    let mut meter = RateMeter::default();
    meter.update(first.0, first.1);
    let mut written = match command.output {
        Output::Text => lines::write_head(out),
        Output::Json => Ok(()),
    };
    while written.is_ok() {
        thread::sleep(command.interval);
        match fetch() {
            Ok(status) => {
                let rates = meter.update(status, Instant::now());
                if let (Some(rates), Some(status)) = (rates, meter.last()) {
                    written = match command.output {
                        Output::Text => lines::write(out, status, &rates),
                        Output::Json => json::write(out, status, &rates),
                    };
                }
            }
            Err(why) => eprintln!("dunlin: {why}"),
        }
    }
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
