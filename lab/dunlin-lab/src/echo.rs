//! `dunlin-lab echo`: the echo server, live.
mod json;
mod show;

use super::{signals, values};
use crate::values::read_interval;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use command_line::Output;
use cpu::CpuList;
use lab_echo::{Model, Options, Snapshot, WaitEnd};
use show::Lines;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
pub struct Echo {
    /// Address to answer at. With all addresses (`0.0.0.0` or `[::]`), the kernel chooses the
    /// source address of an answer by the route back; it may not be the address of the query.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5353")]
    pub listen: SocketAddr,
    /// I/O model of each thread.
    #[arg(long, value_parser = models(), default_value = Model::Recvmmsg.name())]
    pub model: Model,
    /// Processes. Number of processes. The command itself is the first; it forks the others, and
    /// they end with it.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub processes: usize,
    /// Threads of each process.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub threads: usize,
    /// Use one socket for all threads of all processes, instead of one per thread (SO_REUSEPORT).
    #[arg(long)]
    pub shared: bool,
    /// Datagrams a call (recvmmsg, io_uring, packet), or a wake-up (poll, select, epoll), at most:
    /// 1 to 1024. Default: 64. The batch of blocking, spin and xdp_tx is always 1, that of worker
    /// and af_xdp 64.
    #[arg(long, value_name = "NUMBER")]
    pub batch: Option<usize>,
    /// Pin each thread to one of these CPUs, such as 0-3,8, in turn.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Receive buffer of a socket, the kernel's bookkeeping included.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = values::read_size)]
    pub receive_buffer: usize,
    /// Send buffer of a socket.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = values::read_size)]
    pub send_buffer: usize,
    /// Let a waiting socket poll its device for this long (SO_BUSY_POLL), such as 50us.
    #[arg(long, value_name = "TIME", value_parser = values::read_time)]
    pub busy_poll: Option<Duration>,
    /// Spend this many nanoseconds more on each query, to simulate a slow server.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub spin_ns: u64,
    /// Network namespace of the sockets, as `ip netns list` shows it.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// End after this many seconds.
    #[arg(long, value_name = "NUMBER")]
    pub seconds: Option<u32>,
    /// Interval of output: 100ms to 1h.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = read_interval)]
    pub interval: Duration,
    /// Output format. JSON: one object per line for each interval, and one at the end.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Names and descriptions of the models.
fn models() -> impl TypedValueParser<Value = Model> {
    let names = Model::ALL.map(|model| PossibleValue::new(model.name()).help(model.about()));
    PossibleValuesParser::new(names)
        .try_map(|name| Model::of_name(&name).ok_or("there is no such model"))
}

/// Answers until a signal comes, or its time is over.
///
/// # Errors
/// It cannot be started, a thread or a process ended by itself, or standard output is gone.
pub fn run(command: &Echo) -> Result<ExitCode, Box<dyn Error>> {
    // Before there are threads and processes, which take it on.
    let stop = signals::to_descriptor()?;
    let mut echo = match lab_echo::Echo::start(options(command)) {
        Err(lab_echo::Error::Invalid(text)) => {
            eprintln!("dunlin-lab: {text}");
            return Ok(ExitCode::from(2));
        }
        started => started?,
    };
    let mut out = io::stdout().lock();
    let mut writer = Writer::new(command.output, out.is_terminal());
    writer.begin(&mut out, command, &echo)?;
    let begun = Instant::now();
    let end = command.seconds.map(|seconds| begun + Duration::from_secs(seconds.into()));
    let mut due = begun;
    let mut before = show::nothing_of(&echo.snapshot());
    loop {
        due += command.interval;
        let until = end.map_or(due, |end| due.min(end));
        let waited = echo.wait(Some(until), stop.as_fd())?;
        if waited == WaitEnd::Stopped || end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let now = echo.snapshot();
        writer.interval(&mut out, &before, &now)?;
        before = now;
    }
    let sum = echo.stop()?;
    // The last interval may be shorter than others.
    writer.interval(&mut out, &before, &sum)?;
    writer.end(&mut out, &sum)?;
    Ok(ExitCode::SUCCESS)
}

fn options(command: &Echo) -> Options {
    Options {
        processes: command.processes,
        threads: command.threads,
        shared: command.shared,
        batch: command.batch,
        cpus: command.cpus.clone(),
        receive_buffer: command.receive_buffer,
        send_buffer: command.send_buffer,
        busy_poll: command.busy_poll.unwrap_or_default(),
        spin: Duration::from_nanos(command.spin_ns),
        netns: command.netns.clone(),
        ..Options::new(command.listen, command.model)
    }
}

/// In which way it is written what the echo does.
enum Writer {
    /// A table that is written over itself.
    Table(Lines),
    /// A line each interval.
    Log,
    Json,
}

impl Writer {
    fn new(output: Output, is_terminal: bool) -> Self {
        let is_dumb = std::env::var("TERM").is_ok_and(|name| name == "dumb");
        match output {
            Output::Json => Self::Json,
            Output::Text if is_terminal && !is_dumb => Self::Table(Lines::default()),
            Output::Text => Self::Log,
        }
    }

    fn begin(
        &mut self,
        out: &mut impl Write,
        command: &Echo,
        echo: &lab_echo::Echo,
    ) -> io::Result<()> {
        if matches!(self, Self::Json) {
            return json::write_header(out, command.interval, echo);
        }
        show::write_head(out, echo)?;
        match self {
            Self::Log => show::write_log_head(out),
            _ => Ok(()),
        }
    }

    fn interval(
        &mut self,
        out: &mut impl Write,
        before: &Snapshot,
        now: &Snapshot,
    ) -> io::Result<()> {
        match self {
            Self::Table(lines) => lines.write(out, show::table(before, now)),
            Self::Log => show::write_log(out, before, now),
            Self::Json => json::write_stats(out, json::Kind::Periodic, before, now),
        }
    }

    fn end(&mut self, out: &mut impl Write, sum: &Snapshot) -> io::Result<()> {
        let nothing = show::nothing_of(sum);
        match self {
            Self::Json => return json::write_stats(out, json::Kind::Sum, &nothing, sum),
            Self::Table(lines) => lines.write(out, show::table(&nothing, sum))?,
            Self::Log => {
                for line in show::table(&nothing, sum) {
                    writeln!(out, "{line}")?;
                }
            }
        }
        show::write_sum(out, sum)
    }
}
