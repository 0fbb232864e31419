//! The flags of commands that measure a server but choose rates themselves.
use super::*;

/// Options for the target, for commands that choose rates themselves.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// The server's address.
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    server: IpAddr,
    /// The server's port.
    #[arg(short, long, default_value_t = 53)]
    port: u16,
    /// Processes of the server on this machine. Default: processes with sockets at its address.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub server_pids: Vec<u32>,
    /// Timeout. A later answer counts as lost.
    #[arg(short = 't', long, value_name = "TIME", default_value = "500ms", value_parser = seconds)]
    timeout: u64,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten, next_help_heading = "What")]
    what: WhatFlags,
    #[command(flatten, next_help_heading = "How")]
    how: HowFlags,
}

impl Target {
    /// The data file of its queries.
    pub fn data(&self) -> Option<&std::path::Path> {
        self.what.data.as_deref()
    }

    /// Options of a load at it; the caller sets rate and length.
    pub fn options(&self) -> Result<Options, String> {
        let when = WhenFlags {
            rate: Some(Rate::Constant(1.0)),
            poisson: false,
            burst: 1,
            outstanding: 100,
            rate_max: None,
            length: Some(1_000_000_000),
            runs: None,
            count: None,
            timeout: self.timeout,
        };
        let judged = JudgedFlags {
            check: None,
            check_one_in: 64,
            server_pids: self.server_pids.clone(),
            against_echo: None,
        };
        let load = Load {
            server: Some(self.server),
            port: self.port,
            family: Family::Inet,
            mode: Mode::Udp,
            when,
            what: self.what.clone(),
            how: self.how.clone(),
            judged,
            interval: 1_000_000_000,
            output: Output::Text,
            hlog: None,
            seed: self.seed,
        };
        Ok(Options { errors_are_wrong: true, ..load.options()? })
    }
}

/// Options for the queries, for commands that choose everything else themselves.
#[derive(Args, Clone, Debug)]
pub struct Queries {
    #[command(flatten, next_help_heading = "What")]
    what: WhatFlags,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Queries {
    /// The data file of its queries.
    pub fn data(&self) -> Option<&std::path::Path> {
        self.what.data.as_deref()
    }

    /// What is asked, in words.
    ///
    /// # Errors
    /// The data file cannot be read.
    pub fn told(&self) -> Result<String, String> {
        let WhatFlags { data, pattern, names, order, hit_rate, unique, .. } = &self.what;
        let from = match data {
            Some(file) => crate::compare::digest(file)?,
            None => format!("{names} of {}", pattern.as_deref().unwrap_or_default()),
        };
        let unique = hit_rate.map_or(*unique, |hits| 1.0 - hits);
        Ok(format!("names {from}, order {order:?}, {unique} unique").to_lowercase())
    }

    /// The queries with EDNS.
    ///
    /// # Errors
    /// As [`Self::asks`].
    pub fn asks_with_edns(&self) -> Result<QuerySource, String> {
        WhatFlags { edns: true, ..self.what.clone() }.asks().map(|(asks, _)| asks)
    }

    /// The queries.
    ///
    /// # Errors
    /// A file cannot be read, or has none.
    pub fn asks(&self) -> Result<QuerySource, String> {
        self.what.asks().map(|(asks, _)| asks)
    }
}
