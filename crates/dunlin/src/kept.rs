//! `dunlin cache`: what is kept of others' names, to be looked at and to be forgotten.
use crate::cli::{self, CacheAct, Output};
use crate::human::{Side, align, count, octets, plain, plural, span};
use admin::{Client, Command, Kept, Outcome, Scope, ThreadFlushed, ThreadKept};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Asks the server, and tells what came of it.
///
/// # Errors
/// When the server cannot be reached or refuses, or the result not be written.
pub fn run(command: &cli::Cache) -> Result<ExitCode, Box<dyn Error>> {
    let (server, asked) = match &command.act {
        CacheAct::Flush(flush) => (&flush.server, Command::Flush(scope(flush))),
        CacheAct::Show(show) => {
            let (name, rtype) = (show.name.clone(), show.rtype.clone());
            (&show.server, Command::Show { name, rtype })
        }
    };
    let outcome = Client::connect(&server.socket)?.command(asked)?;
    let mut out = io::stdout().lock();
    match (server.output, &outcome) {
        (Output::Json, outcome) => {
            serde_json::to_writer_pretty(&mut out, outcome)?;
            writeln!(out)?;
        }
        (Output::Text, Outcome::Flushed(threads)) => write_flushed(&mut out, threads)?,
        (Output::Text, Outcome::Shown(threads)) => write_shown(&mut out, threads)?,
        (Output::Text, other) => return Err(format!("it did something else: {other:?}").into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn scope(flush: &cli::Flush) -> Scope {
    match &flush.name {
        Some(name) if flush.subtree => Scope::Subtree(name.clone()),
        Some(name) => Scope::Name(name.clone()),
        // Clap wants the one or the other.
        None => Scope::All,
    }
}

fn write_flushed(out: &mut impl Write, threads: &[ThreadFlushed]) -> io::Result<()> {
    let answers: u64 = threads.iter().map(|thread| thread.answers).sum();
    let under_way: u64 = threads.iter().map(|thread| thread.under_way).sum();
    let of = plural(threads.len(), "thread");
    write!(out, "{} forgotten, of {of}", plural(answers as usize, "answer"))?;
    if under_way > 0 {
        let asks = plural(under_way as usize, "question");
        write!(out, "; what comes for {asks} under way is not kept")?;
    }
    writeln!(out)
}

fn write_shown(out: &mut impl Write, threads: &[ThreadKept]) -> io::Result<()> {
    let head = ["THREAD", "TYPE", "FLAGS", "SAYS", "RECORDS", "LEFT", "AGE", "USES", "SIZE"];
    let mut rows = vec![head.map(str::to_owned)];
    for thread in threads {
        rows.extend(thread.answers.iter().map(|kept| row(&thread.thread, kept)));
    }
    if rows.len() == 1 {
        return writeln!(out, "nothing is kept of it, by {}", plural(threads.len(), "thread"));
    }
    use Side::{Left, Right};
    for line in align([Left, Left, Left, Left, Right, Right, Right, Right, Right], &rows) {
        writeln!(out, "{line}")?;
    }
    let all: u64 = threads.iter().map(|thread| thread.count).sum();
    match all - rows[1..].len() as u64 {
        0 => Ok(()),
        more => writeln!(out, "and {} more: name a type to see them", count(more)),
    }
}

fn row(thread: &str, kept: &Kept) -> [String; 9] {
    let flags = [(kept.dnssec_ok, "DO"), (kept.checking_disabled, "CD")];
    let flags: Vec<&str> = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| *flag).collect();
    let left = match kept.ttl.saturating_sub(kept.age) {
        0 => "stale".to_owned(),
        left => span(left.into()),
    };
    let says = if kept.is_unfinished { "an alias" } else { &kept.rcode };
    [
        plain(thread),
        plain(&kept.rtype),
        if flags.is_empty() { "-".into() } else { flags.join(" ") },
        plain(says),
        count(kept.records.into()),
        left,
        span(kept.age.into()),
        // More are not counted.
        if kept.uses < 3 { count(kept.uses.into()) } else { "3+".into() },
        octets(kept.octets),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(threads: &[ThreadKept]) -> String {
        let mut out = Vec::new();
        write_shown(&mut out, threads).expect("a Vec takes all");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn what_is_kept_in_one_look() {
        let kept = Kept {
            rtype: "AAAA".into(),
            rcode: "NXDOMAIN".into(),
            age: 7,
            ttl: 3_607,
            uses: 3,
            octets: 120,
            ..Kept::default()
        };
        let stale = Kept {
            rtype: "A".into(),
            rcode: "NOERROR".into(),
            records: 2,
            dnssec_ok: true,
            checking_disabled: true,
            is_unfinished: true,
            age: 70,
            ttl: 60,
            ..Kept::default()
        };
        let threads = [
            ThreadKept { thread: "worker-0".into(), count: 3, answers: vec![kept, stale] },
            ThreadKept { thread: "streams-0".into(), ..ThreadKept::default() },
        ];
        let expected = "\
            THREAD    TYPE  FLAGS  SAYS      RECORDS   LEFT    AGE  USES   SIZE\n\
            worker-0  AAAA  -      NXDOMAIN        0    1 h    7 s    3+  120 B\n\
            worker-0  A     DO CD  an alias        2  stale  1 min     0    0 B\n\
            and 1 more: name a type to see them\n";
        assert_eq!(shown(&threads), expected);
        assert_eq!(shown(&threads[1..]), "nothing is kept of it, by 1 thread\n");
    }

    #[test]
    fn what_went_in_one_line() {
        let thread =
            |answers, under_way| ThreadFlushed { answers, under_way, ..Default::default() };
        let told = |threads: &[ThreadFlushed]| {
            let mut out = Vec::new();
            write_flushed(&mut out, threads).expect("a Vec takes all");
            String::from_utf8(out).expect("UTF-8")
        };
        assert_eq!(told(&[thread(1_000, 0)]), "1,000 answers forgotten, of 1 thread\n");
        let expected = "1 answer forgotten, of 2 threads; what comes for 3 questions under way is \
                        not kept\n";
        assert_eq!(told(&[thread(0, 2), thread(1, 1)]), expected);
    }
}
