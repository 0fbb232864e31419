//! `dunlin-lab hosts`: two hosts made of this machine.
use clap::{Args, Subcommand};
use command_line::Output;
use command_line::{Side as Align, align, plural};
use lab_host::counters::{Host, Reading};
use lab_host::hosts::{self, HostsState, Layout, NamespaceProcess, Options, Side, Status};
use std::error::Error;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct Hosts {
    #[command(subcommand)]
    pub act: Act,
}

#[derive(Debug, Subcommand)]
pub enum Act {
    /// Create both hosts. Hosts that exist with these options stay as they are.
    ///
    /// Needs root, and Debian's packages iproute2, ethtool and util-linux.
    #[command(after_help = "Examples:\n  \
        dunlin-lab hosts up\n  \
        dunlin-lab hosts up --server-cpus 2-5 --client-cpus 6-9 --queues 4")]
    Up(Up),
    /// Remove both hosts, also if only parts of them exist.
    #[command(after_help = "Examples:\n  \
        dunlin-lab hosts down\n  \
        dunlin-lab hosts down --end")]
    Down(Down),
    /// Show the hosts and the processes in them. Exit status 1: they are not up.
    #[command(after_help = "Examples:\n  \
        dunlin-lab hosts status\n  \
        dunlin-lab hosts status -o json | jq -r '.hosts[].netns'")]
    Status(Show),
    /// Run a command on a host: in its network, on its CPUs. The exit status is that of the
    /// command.
    #[command(after_help = "Examples:\n  \
        dunlin-lab hosts exec server -- knotd -c knot.conf\n  \
        dunlin-lab hosts exec client -- dig @10.99.0.1 example.org")]
    Exec(Exec),
    /// Print the CPU time that processes and the receiving threads of their host have used, in
    /// seconds.
    ///
    /// The receiving threads are the host's polling threads, which do all the work of the kernel
    /// for its packets. With the layout `steered` there are none: interrupts receive, and no
    /// process is charged.
    #[command(after_help = "Example:\n  dunlin-lab hosts time server \"$(pidof knotd)\"")]
    Time(Time),
}

/// Names a pair of hosts.
#[derive(Args, Debug)]
pub struct Named {
    /// Prefix of namespace and device names; hosts of several names can be up.
    #[arg(long, value_name = "NAME", default_value = Options::NAME)]
    pub name: String,
}

#[derive(Args, Debug)]
pub struct Up {
    #[command(flatten)]
    pub named: Named,
    /// CPUs that receive packets: `whole`, the receiving host's, by polling threads; `steered`, the
    /// receiving host's, by interrupts; `shared`, as `whole`, but packets sent by AF_XDP are
    /// received on the sender's CPUs.
    #[arg(long, value_name = "LAYOUT", default_value_t = Layout::Whole)]
    pub layout: Layout,
    /// CPUs of the server's host. Default: the first that this process may use.
    #[arg(long, value_name = "CPUS")]
    pub server_cpus: Option<cpu::CpuList>,
    /// CPUs of the clients' host. Default: the second.
    #[arg(long, value_name = "CPUS")]
    pub client_cpus: Option<cpu::CpuList>,
    /// Receive and send queues of each device.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub queues: u32,
    /// The largest packet, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1_500)]
    pub mtu: u32,
}

#[derive(Args, Debug)]
pub struct Down {
    #[command(flatten)]
    pub named: Named,
    /// End the processes on the hosts first: SIGTERM, then SIGKILL.
    #[arg(long)]
    pub end: bool,
}

#[derive(Args, Debug)]
pub struct Show {
    #[command(flatten)]
    pub named: Named,
    /// Write the result as text or as JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Exec {
    #[command(flatten)]
    pub named: Named,
    /// The host: server or client.
    #[arg(value_name = "HOST")]
    pub side: Side,
    /// Command to run, with its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub words: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Time {
    #[command(flatten)]
    pub named: Named,
    /// The host: server or client.
    #[arg(value_name = "HOST")]
    pub side: Side,
    /// The processes.
    #[arg(value_name = "PID")]
    pub pids: Vec<u32>,
}

/// Does it.
///
/// # Errors
/// The failed action, and a remedy.
pub fn run(command: &Hosts) -> Result<ExitCode, Box<dyn Error>> {
    match &command.act {
        Act::Up(up) => make(up),
        Act::Down(down) => {
            for NamespaceProcess { side, pid, name } in
                hosts::Hosts::down(&down.named.name, down.end)?
            {
                eprintln!(
                    "dunlin: {name} ({pid}) still runs; its host, the {side}'s, has no wire now"
                );
            }
            Ok(ExitCode::SUCCESS)
        }
        Act::Status(show) => show_status(show),
        // Only returns where it fails: what was asked for takes the place of this process.
        Act::Exec(exec) => Err(found(&exec.named)?.command(exec.side, &exec.words)?.exec().into()),
        Act::Time(time) => {
            writeln!(io::stdout(), "{:.2}", seconds(time)?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn make(up: &Up) -> Result<ExitCode, Box<dyn Error>> {
    let cpus = (up.server_cpus.as_ref(), up.client_cpus.as_ref());
    let options = Options {
        layout: up.layout,
        queues: up.queues,
        mtu: up.mtu,
        ..Options::new(&up.named.name, cpus.0, cpus.1)?
    };
    let (hosts, made) = hosts::Hosts::up(&options)?;
    let how = if made == HostsState::Already { "were up already" } else { "are up" };
    writeln!(io::stdout(), "the hosts {} {how}", hosts.options().name)?;
    write_table(&hosts.status()?)?;
    Ok(ExitCode::SUCCESS)
}

/// Those that are up.
fn found(named: &Named) -> Result<hosts::Hosts, String> {
    let name = &named.name;
    let missing =
        || format!("the hosts {name} are not up; `dunlin-lab hosts up --name {name}` makes them");
    hosts::Hosts::find(name)?.ok_or_else(missing)
}

fn show_status(show: &Show) -> Result<ExitCode, Box<dyn Error>> {
    let status = found(&show.named)?.status()?;
    match show.output {
        Output::Json => writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&status)?)?,
        Output::Text => write_table(&status)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_table(status: &Status) -> io::Result<()> {
    let head = ["HOST", "NAMESPACE", "DEVICE", "CPUS", "ADDRESSES", "POLLING THREADS"];
    let mut rows = vec![head.map(str::to_owned)];
    for host in &status.hosts {
        rows.push([
            host.side.to_string(),
            host.netns.clone(),
            host.device.clone(),
            host.cpus.clone(),
            host.addresses.join(" "),
            host.polling.join(" "),
        ]);
    }
    let mut out = io::stdout().lock();
    for line in align([Align::Left; 6], &rows) {
        writeln!(out, "{line}")?;
    }
    let options = &status.options;
    let queues = plural(options.queues as usize, "queue");
    writeln!(out, "layout {}, {queues}, MTU {}", options.layout, options.mtu)?;
    for NamespaceProcess { side, pid, name } in &status.residents {
        writeln!(out, "on the {side}: {name} ({pid})")?;
    }
    Ok(())
}

/// CPU seconds of these processes, and of what received for their host.
fn seconds(time: &Time) -> Result<f64, String> {
    let hosts = found(&time.named)?;
    let device = hosts.options().device(time.side);
    let host = Host {
        netns: Some(hosts.options().namespace(time.side)),
        device: Some(device.clone()),
        cpus: Some(cpu::CpuList::default()),
        pids: time.pids.clone(),
    };
    let used = Reading::take(&host)?.since(&Reading::default());
    let polls = used.kernel_threads.iter().map(|thread| thread.cpu_ns).sum::<u64>();
    Ok(used.cpu_seconds().0 + polls as f64 / 1e9)
}
