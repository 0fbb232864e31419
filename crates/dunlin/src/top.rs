//! `dunlin top`: a running server, live.
mod json;
mod lines;
mod rates;
mod screen;

use crate::cli::{self, Output};
use control::status::Status;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rates::Looks;
use screen::Screen;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// What happens while it runs.
enum Event {
    /// The server was asked, at that time, and this is what it told.
    Look(Result<Box<Status>, String>, Instant),
    /// A key was pressed.
    Key(KeyEvent),
    /// The terminal is not as it was.
    Redraw,
    /// A signal says that it is to end, or the keyboard is gone.
    End,
}

/// Where looks come from.
type Ask = Box<dyn FnMut() -> Result<Status, String> + Send>;

/// Shows the server until `q` is pressed, a signal comes, or nobody reads any more.
///
/// # Errors
/// When the server cannot be reached at all, or the terminal not be used.
pub fn run(command: &cli::Top) -> Result<ExitCode, Box<dyn Error>> {
    let socket = command.socket.clone();
    let mut ask: Ask = Box::new(move || {
        let client = admin::Client::connect(&socket).map_err(|error| error.to_string())?;
        client.status().map_err(|error| error.to_string())
    });
    // Before the screen is taken over: who asks the wrong place is told so.
    let first = (ask()?, Instant::now());
    let is_text = command.output == Output::Text;
    if is_text && io::stdout().is_terminal() && io::stdin().is_terminal() && is_capable() {
        let (tell, events) = sync_channel(1);
        start_signals(tell.clone())?;
        start_asking(ask, command.interval, tell.clone())?;
        // From here on a panic, of whichever thread, gives the terminal back before it is told.
        let mut terminal = ratatui::try_init()?;
        let shown = start_keys(tell).and_then(|()| show(&mut terminal, &events, first));
        ratatui::restore();
        shown?;
    } else {
        write_lines(&mut io::stdout().lock(), ask, command, first)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the terminal can be drawn on: one that says it is dumb gets lines.
fn is_capable() -> bool {
    !std::env::var("TERM").is_ok_and(|name| name == "dumb")
}

/// Asks once an interval, until nobody listens.
fn start_asking(mut ask: Ask, interval: Duration, tell: SyncSender<Event>) -> io::Result<()> {
    let asking = move || {
        loop {
            thread::sleep(interval);
            let told = ask().map(Box::new);
            if tell.send(Event::Look(told, Instant::now())).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("asking".into()).spawn(asking).map(drop)
}

fn start_keys(tell: SyncSender<Event>) -> io::Result<()> {
    let keys = move || {
        loop {
            let event = match event::read() {
                Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
                Ok(_) => Event::Redraw,
                Err(_) => Event::End,
            };
            let ends = matches!(event, Event::End);
            if tell.send(event).is_err() || ends {
                return;
            }
        }
    };
    thread::Builder::new().name("keys".into()).spawn(keys).map(drop)
}

/// Takes the signals that end a process as the wish to end.
fn start_signals(tell: SyncSender<Event>) -> io::Result<()> {
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
        // Nobody listens when it is about to end anyway.
        let _ = tell.send(Event::End);
    };
    thread::Builder::new().name("signals".into()).spawn(waiting).map(drop)
}

fn show(
    terminal: &mut DefaultTerminal,
    events: &Receiver<Event>,
    first: (Status, Instant),
) -> io::Result<()> {
    let mut looks = Looks::default();
    let mut screen = Screen::default();
    screen.update(first.0.clone(), None);
    looks.take(first.0, first.1);
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        let goes_on = events.recv().is_ok_and(|event| react(&mut screen, &mut looks, event));
        if !goes_on {
            return Ok(());
        }
    }
}

/// Takes in what happened; says whether to go on.
fn react(screen: &mut Screen, looks: &mut Looks, event: Event) -> bool {
    match event {
        Event::Look(Ok(status), at) => {
            // Looks go on while it is paused, so that the first rate behind is no mean.
            let rates = looks.take(*status, at);
            if let Some(status) = looks.last().filter(|_| !screen.paused) {
                screen.update(status.clone(), rates);
            }
        }
        Event::Look(Err(why), _) => screen.trouble = Some(why),
        Event::Redraw => {}
        Event::End => return false,
        Event::Key(key) => match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            // In raw mode it is no signal.
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

/// A line an interval, until nobody reads them.
fn write_lines(
    out: &mut impl Write,
    mut ask: Ask,
    command: &cli::Top,
    first: (Status, Instant),
) -> io::Result<()> {
    let mut looks = Looks::default();
    looks.take(first.0, first.1);
    let mut written = match command.output {
        Output::Text => lines::write_head(out),
        Output::Json => Ok(()),
    };
    while written.is_ok() {
        thread::sleep(command.interval);
        match ask() {
            Ok(status) => {
                let rates = looks.take(status, Instant::now());
                if let (Some(rates), Some(status)) = (rates, looks.last()) {
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
